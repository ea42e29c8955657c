"""Images and layers as folders that do not change: a folder as it is, an archive unpacked once into a cache.

    resolve(source, cache) -> Layer(path, digest)        cache/<digest of the archive>/...  cache/.lock

Only who holds the lock unpacks, into a folder beside that gets its name when it is complete.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from assay.errors import SandboxError
from assay.records import record
from environments.sandboxes import _files, _image_archive
from environments.sandboxes._archive import CHUNK
from environments.sandboxes._tree_hash import TreeHash
from environments.sandboxes._unpack import Unpacker

_UNFINISHED = ".unpacking-"
_known: dict[tuple[str, int, int, str], "Layer"] = {}


@record
class Layer:
    """An absolute folder that will not change, and the SHA-256 (hex) of its content or of the archive it came as."""

    path: str
    digest: str


def resolve(source: str, cache: Path, *, max_bytes: int = 20 << 30, max_entries: int = 1_000_000) -> Layer:
    """The layer that a folder or an archive stands for.

    Archives: a tar of a root file system or OCI layer, `docker save`, an OCI image layout; plain, gzip, bzip2 or xz.
    Device nodes, FIFOs and set-id bits are dropped, owners become the current user. A folder is read once per process,
    an archive once per process and change. Raises SandboxError, leaving nothing behind, when it cannot be used.
    """
    try:
        real = os.path.realpath(source, strict=True)
        status = os.stat(real)
        is_folder = stat.S_ISDIR(status.st_mode)
        if not is_folder and not stat.S_ISREG(status.st_mode):
            raise SandboxError("it is neither a folder nor a file; give a folder or a tar")
        key = (real, 0, 0, "") if is_folder else (real, status.st_size, status.st_mtime_ns, os.path.abspath(cache))
        if key not in _known or not os.path.isdir(_known[key].path):
            place = Path(os.path.abspath(cache))
            _known[key] = _folder(real) if is_folder else _unpacked(real, place, max_bytes, max_entries)
        return _known[key]
    except ValueError as error:
        raise SandboxError(f"Cannot use {source!r} as an image or layer: it is no path ({error}).") from error
    except OSError as error:
        reason = f"{error.strerror or error} ({error.filename or cache}); see that it is there, readable, and has room"
        raise SandboxError(f"Cannot use {source!r} as an image or layer: {reason}.") from error
    except SandboxError as error:
        raise SandboxError(f"Cannot use {source!r} as an image or layer: {str(error).rstrip('.')}.") from error


def _folder(path: str) -> Layer:
    fd = os.open(path, _files.FOLDER)
    try:
        return Layer(path=path, digest=TreeHash().digest(fd, ignore=frozenset()))
    finally:
        os.close(fd)


def _unpacked(path: str, cache: Path, max_bytes: int, max_entries: int) -> Layer:
    with open(path, "rb") as file:
        before = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        final = cache / digest
        cache.mkdir(parents=True, exist_ok=True)
        if not final.is_dir():
            with _locked(cache):
                if not final.is_dir():
                    _sweep(cache)
                    _unpack(file, final, max_bytes, max_entries)
        if os.fstat(file.fileno()).st_mtime_ns != before.st_mtime_ns:
            raise SandboxError("it changed while being read; leave it as it is while it is used")
    return Layer(path=str(final), digest=digest)


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Alone among all processes and threads; the lock of a process that dies is free again."""
    fd = os.open(cache / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _sweep(cache: Path) -> None:
    """Remove what a process that died while it held the lock has left."""
    for left in cache.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left)


def _unpack(file: BinaryIO, final: Path, max_bytes: int, max_entries: int) -> None:
    unfinished = final.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
    unfinished.mkdir(mode=0o700)
    try:
        layer = unfinished / "layer"
        layer.mkdir()
        layer.chmod(0o755)  # whatever the umask: sandboxes look at it as another user
        with _plain(file, unfinished / "plain", max_bytes) as plain:
            _fill(layer, plain, max_bytes, max_entries)
        os.rename(layer, final)
    finally:
        shutil.rmtree(unfinished)


def _fill(layer: Path, plain: BinaryIO, max_bytes: int, max_entries: int) -> None:
    root = os.open(layer, _files.FOLDER)
    try:
        unpacker = Unpacker(root, max_bytes, max_entries)
        for archive in _image_archive.layers(plain, max_bytes, max_entries):
            unpacker.apply(archive)
    finally:
        os.close(root)
    if unpacker.num_entries == 0:
        raise SandboxError("it is an empty archive; give one with files in it")


@contextlib.contextmanager
def _plain(file: BinaryIO, place: Path, max_bytes: int) -> Iterator[BinaryIO]:
    """The archive without compression, in a file of its own if need be."""
    file.seek(0)
    unpacked = _image_archive.decompressor(file)
    if unpacked is None:
        yield file
        return
    with open(place, "w+b") as copy:
        num_bytes = 0
        while chunk := _image_archive.read(unpacked, CHUNK):
            num_bytes += len(chunk)
            if num_bytes > max_bytes:
                raise SandboxError(f"it unpacks to more than {max_bytes} bytes, which is the most allowed")
            copy.write(chunk)
        copy.flush()
        yield copy
