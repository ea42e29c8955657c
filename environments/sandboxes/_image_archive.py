"""What kind of archive an image comes as, and the layers in it, lowest first.

docker save: manifest.json -> layer tars       OCI layout: index.json -> manifest -> blobs       else: one layer
"""

import bz2
import gzip
import io
import json
import lzma
import os
import posixpath
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from assay.errors import SandboxError
from environments.sandboxes._archive import Archive, explained

_MAX_JSON = 4 << 20
_MAX_LINKS = 8
_ZSTD = b"\x28\xb5\x2f\xfd"
_COMPRESSIONS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


def decompressor(file: BinaryIO) -> BinaryIO | None:
    """What reads `file` unpacked; None when it is not compressed. Its position stays at the start."""
    start = file.read(6)
    file.seek(-len(start), os.SEEK_CUR)
    if start.startswith(_ZSTD):
        raise SandboxError("it is compressed with zstd, which is not supported; use gzip, bzip2, xz or none")
    return next((cast(BinaryIO, of(file)) for magic, of in _COMPRESSIONS.items() if start.startswith(magic)), None)


def read(unpacked: BinaryIO, size: int) -> bytes:
    """The next bytes of a decompressor; SandboxError when it cannot go on."""
    with explained():
        return unpacked.read(size)


def layers(file: BinaryIO, max_bytes: int, max_entries: int) -> Iterator[Archive]:
    """The layers of the uncompressed archive `file`, each to be read before the next."""
    index = _Index(file, max_entries)
    if names := index.layer_names():
        for name in names:
            section = index.open(name)
            yield Archive(decompressor(section) or section, max_bytes)
    else:
        file.seek(0)
        yield Archive(file, max_bytes)


class _Index:
    """Where in an archive each file is."""

    def __init__(self, file: BinaryIO, max_entries: int) -> None:
        self._file = file
        self._files: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        for number, entry in enumerate(Archive(file, size, seekable=True)):
            if number >= max_entries:
                raise SandboxError(f"it has more than {max_entries} entries, which is the most allowed")
            name = posixpath.normpath(entry.name)
            if entry.isreg() and not entry.issparse():
                self._files[name] = (entry.offset_data, entry.size)
            elif entry.issym() or entry.islnk():  # equal layers of older archives
                above = posixpath.dirname(name) if entry.issym() else ""
                self._links[name] = posixpath.normpath(posixpath.join(above, entry.linkname))

    def open(self, name: str) -> BinaryIO:
        real = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            real = self._links.get(real, real)
        if real not in self._files:
            raise SandboxError(f"its manifest names {name!r}, which is not in the archive; save the image again")
        return cast(BinaryIO, io.BufferedReader(_Section(self._file, *self._files[real])))

    def layer_names(self) -> list[str]:
        """Lowest first; empty when this is no image but a layer itself."""
        try:
            if "manifest.json" in self._files and isinstance(images := self._json("manifest.json"), list):
                tags = [str(image.get("RepoTags") or "without a name") for image in images]
                return [str(layer) for layer in _only(images, tags)["Layers"]]
            if "oci-layout" in self._files:
                return self._oci_layers(self._json("index.json"))
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise SandboxError(f"its manifest is not as it should be ({error!r}); save the image again") from error
        return []

    def _oci_layers(self, index: Any) -> list[str]:
        manifests = [one for one in index["manifests"] if not _is_attestation(one)]
        labels = [str(one.get("platform") or one.get("annotations") or one["digest"]) for one in manifests]
        manifest = self._json(_blob(_only(manifests, labels)))
        if "manifests" in manifest:
            return self._oci_layers(manifest)
        return [_blob(layer) for layer in manifest["layers"]]

    def _json(self, name: str) -> Any:
        text = self.open(name).read(_MAX_JSON + 1)
        if len(text) > _MAX_JSON:
            raise SandboxError(f"its {name} has more than {_MAX_JSON} bytes; save the image again")
        return json.loads(text)


class _Section(io.RawIOBase):
    """A part of a file as a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), self._size - self._at))
        data = os.pread(self._file.fileno(), wanted, self._start + self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _only(images: list[Any], labels: list[str]) -> Any:
    if len(images) != 1:
        raise SandboxError(f"it holds {len(images)} images ({', '.join(labels)}); save exactly one into an archive")
    return images[0]


def _is_attestation(manifest: Any) -> bool:
    return "vnd.docker.reference.type" in (manifest.get("annotations") or {})


def _blob(descriptor: Any) -> str:
    algorithm, _, digest = str(descriptor["digest"]).partition(":")
    return f"blobs/{algorithm}/{digest}"
