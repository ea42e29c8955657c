"""Folders in and out of a place that an agent controls.

    place    a folder of ours -> the work dir        pack         the same as a tar, for places reached by commands
    collect  a folder of the agent's -> a new one    collect_tar  the same from a tar

Coming out, only regular files with one name are taken, and everything else is named with the reason. Nothing that the
agent leaves raises an error or blocks; troubles of this machine are SandboxErrors.
"""

import contextlib
import io
import itertools
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from assay.errors import SandboxError
from environments.sandboxes import _files
from environments.sandboxes._archive import CHUNK, Archive
from environments.sandboxes._basket import LOOKED_AT_PER_FILE, Basket, Full, Refused, filling, readable
from environments.sandboxes.base import Collected, CollectLimits

_HEADERS = 4096  # bytes that a tar adds per entry, generously
_SEVERAL = "several hard links; only files with one name come along"


def collect(root: int, path: str, target: Path, limits: CollectLimits) -> Collected:
    """Copy folder `path` (empty: all) below the open folder `root` to the new folder `target`.

    Files keep their permissions and are always ours to read and write; folders come along where they hold files.
    At most ten times `max_files` entries are looked at. Raises SandboxError if `target` exists or cannot be filled.
    """
    names = _files.parts(path) if path else []
    with (
        filling(target, limits) as basket,
        contextlib.suppress(Full),
        basket.refusing("."),
        _files.open_folder(root, names) as folder,
    ):
        _walk(basket, folder, "")
    return basket.result()


def collect_tar(stream: BinaryIO, target: Path, limits: CollectLimits) -> Collected:
    """The same from a tar that somebody else made; a damaged one counts as far as it goes. See `collect`.

    Files with a second name in the archive are refused under both.
    """
    max_bytes = limits.max_total_bytes + limits.max_files * LOOKED_AT_PER_FILE * _HEADERS
    with filling(target, limits) as basket, contextlib.suppress(Full):
        archive = Archive(stream, max_bytes)
        try:
            for entry in archive:
                path = entry_path(entry.name)
                with basket.refusing(path or "."):
                    basket.look()
                    _take_entry(basket, archive, entry, path)
        except SandboxError as damage:
            basket.refuse(".", str(damage))
    return basket.result()


def place(source: Path, root: int, path: str, owner: tuple[int, int]) -> None:
    """Copy the folder `source` into folder `path` (empty: all) below the open folder `root`, owned by `owner`.

    Regular files and folders with their permissions; links and special files are left out. Files are replaced.
    """
    with _files.explained("place a folder at", path or "."):
        for folder, mode, files in _walk_ours(source):
            names = _files.parts("/".join(part for part in (path, folder) if part)) if path or folder else []
            with _files.open_folder(root, names, make_for=owner) as fd:
                for file, file_mode in files:
                    _files.write_file(fd, file.name, file.read_bytes(), owner, file_mode)
                if names:  # last, for it may forbid to write
                    os.fchmod(fd, mode)


def pack(source: Path) -> bytes:
    """A tar of what `place` would copy."""
    buffer = io.BytesIO()
    with (
        _files.explained("read the folder", str(source)),
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for folder, mode, files in reversed(list(_walk_ours(source))):
            if folder:
                tar.addfile(_entry(folder, tarfile.DIRTYPE, mode))
            for file, file_mode in files:
                data = file.read_bytes()
                path = f"{folder}/{file.name}" if folder else file.name
                tar.addfile(_entry(path, tarfile.REGTYPE, file_mode, len(data)), io.BytesIO(data))
    return buffer.getvalue()


def _entry(path: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.size = kind, mode, size
    return entry


def _walk_ours(source: Path) -> Iterator[tuple[str, int, list[tuple[Path, int]]]]:
    """Each folder with its mode and regular files, those inside first; OSError where one cannot be read."""
    if not source.is_dir():
        raise SandboxError(f"There is no folder {str(source)!r}; give an existing one to upload.")

    def fail(error: OSError) -> None:
        raise error

    for folder, _, names in os.walk(source, topdown=False, onerror=fail):
        entries = [(Path(folder, name), os.lstat(os.path.join(folder, name)).st_mode) for name in sorted(names)]
        regular = [(file, mode & 0o777) for file, mode in entries if stat.S_ISREG(mode)]
        relative = os.path.relpath(folder, source)
        yield "" if relative == "." else relative, os.stat(folder).st_mode & 0o777, regular


def _walk(basket: Basket, folder: int, prefix: str) -> None:
    with os.scandir(folder) as entries:  # one name more than may be looked at, of a million
        names = sorted(entry.name for entry in itertools.islice(entries, basket.left + 1))
    for name in names:
        basket.look()
        path = prefix + name
        with basket.refusing(path):
            _check_name(path)
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                _take_file(basket, folder, name, path, status)
            elif path.count("/") >= basket.max_depth:
                raise Refused(f"deeper than {basket.max_depth} folders")
            else:
                with _files.open_folder(folder, [name]) as below:
                    _walk(basket, below, f"{path}/")


def _take_file(basket: Basket, folder: int, name: str, path: str, seen: os.stat_result) -> None:
    _check_status(seen)  # before it is opened: some kinds do things when they are
    basket.check(path, seen.st_size)
    fd = os.open(name, _files.READ, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != (seen.st_dev, seen.st_ino):
            raise Refused("it was exchanged while being read")
        _check_status(status)
        basket.check(path, status.st_size)
        basket.add(path, status.st_size, status.st_mode, iter(lambda: os.read(fd, CHUNK), b""))
        now = os.fstat(fd)
        if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            basket.drop(path)
            raise Refused("it changed while being read")
    finally:
        os.close(fd)


def _check_status(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"not a regular file (mode {stat.filemode(status.st_mode)})")
    if status.st_nlink != 1:
        raise Refused(f"{status.st_nlink} hard links; only files with one name come along")
    if _files.mostly_holes(status):
        raise Refused(f"{status.st_size} bytes of which {status.st_blocks * 512} are there: {_files.HOLES_RULE}")


def _take_entry(basket: Basket, archive: Archive, entry: tarfile.TarInfo, path: str) -> None:
    if not path or entry.isdir():
        return
    _check_name(path)
    if entry.name.startswith("/") or ".." in path.split("/"):
        raise Refused("its name leads out of the folder")
    if path.count("/") > basket.max_depth:
        raise Refused(f"deeper than {basket.max_depth} folders")
    if entry.islnk():
        other = entry_path(entry.linkname)
        basket.drop(other)
        basket.refuse(other, _SEVERAL)
        raise Refused(_SEVERAL)
    if not entry.isreg():
        raise Refused(f"not a regular file (type {entry.type!r} of the archive)")
    basket.check(path, entry.size)
    basket.add(path, entry.size, entry.mode, archive.chunks(entry))


def entry_path(name: str) -> str:
    """A name in an archive as a path; empty for the folder itself."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _check_name(path: str) -> None:
    if "\0" in path or readable(path) != path:
        raise Refused("its name is not UTF-8")
