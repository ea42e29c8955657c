"""Objects as files below a local folder.

Every write goes to a file in `.tmp/` first, is flushed to the disk, and then takes its name in one step:
`rename` replaces, `link` refuses when the name is taken. A reader never sees half an object, and a crash
leaves at most a file in `.tmp/`, which the store's sweep removes.
"""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from assay.errors import StoreError
from assay.registry import PluginConfig
from storage.backends._probe import probe
from storage.backends.base import MissingKey
from storage.names import stamped

TEMPORARY = ".tmp/"
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class FolderConfig(PluginConfig):
    """Where the folder is."""

    path: Path


class FolderStore:
    """An object store on a local or shared POSIX file system with hard links."""

    id: ClassVar[str] = "folder"
    Config: ClassVar[type[FolderConfig]] = FolderConfig

    def __init__(self, config: FolderConfig) -> None:
        self._root = config.path.expanduser().absolute()
        self.root = str(self._root)

    def put(self, key: str, data: bytes) -> None:
        target = self._path(key)
        with self._explained("write", key):
            temporary = self._write_temporary(target, data)
            os.replace(temporary, target)
            _sync(target.parent)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        target = self._path(key)
        with self._explained("write", key):
            temporary = self._write_temporary(target, data)
            try:
                os.link(temporary, target)
                _sync(target.parent)
            except FileExistsError:
                return False
            except OSError as error:
                raise self._no_links(error) from error
            finally:
                os.unlink(temporary)
        return True

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            with self._explained("read", key):
                return path.read_bytes()
        except FileNotFoundError as error:
            raise MissingKey(f"There is no {key!r} in the store {self.root}.") from error

    def exists(self, key: str) -> bool:
        with self._explained("read", key):
            return self._path(key).is_file()

    def list(self, prefix: str) -> list[str]:
        start = self._root / prefix.rpartition("/")[0]
        hidden = not prefix.startswith(TEMPORARY)
        with self._explained("list", prefix):
            keys = [path.relative_to(self._root).as_posix() for path in _files(start)]
        return sorted(k for k in keys if k.startswith(prefix) and not (hidden and k.startswith(TEMPORARY)))

    def delete(self, key: str) -> None:
        with self._explained("delete", key):
            self._path(key).unlink(missing_ok=True)

    def uri(self, key: str) -> str:
        return str(self._path(key))

    def create(self) -> None:
        with self._explained("create", ""):
            _make_directory(self._root)

    def check(self) -> None:
        probe(self)

    def filesystem(self) -> None:
        return None

    def secret(self) -> None:
        return None

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(parts) or ".." in parts or "." in parts or "\0" in key:
            raise StoreError(f"{key!r} is not a key: use non-empty parts joined by '/', none of them '.' or '..'.")
        return self._root.joinpath(*parts)

    def _write_temporary(self, target: Path, data: bytes) -> Path:
        """A flushed file with the data, on the target's file system; the target's folder exists afterwards."""
        _make_directory(target.parent)
        temporary = self._root / TEMPORARY / stamped("write", uuid.uuid4().hex[:8])
        _make_directory(temporary.parent)
        with open(temporary, "xb") as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        return temporary

    def _no_links(self, error: OSError) -> Exception:
        if error.errno not in _NO_LINKS:
            return error
        return StoreError(
            f"The file system of {self.root} has no hard links ({error.strerror}), which commits need. "
            "Set ASSAY_STORE to a folder on a local disk or to s3://bucket/prefix."
        )

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        """Turn an OSError into a StoreError; FileNotFoundError passes where the caller has a better word for it."""
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and action == "read":
                raise
            place = self._path(key) if key and action != "list" else self._root
            raise StoreError(f"Cannot {action} {place}: {error.strerror}. {_advice(error, self.root)}") from error


def _advice(error: OSError, root: str) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"The store {root} must be a folder that user {os.geteuid()} may read and write; "
            "fix its permissions or set ASSAY_STORE to another."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"Free space on the disk of {root} or set ASSAY_STORE to another."
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"The store {root} must be a folder and a file is in its way; set ASSAY_STORE to another."
    return f"Look at the disk of {root} or set ASSAY_STORE to another folder."


def _files(start: Path) -> Iterator[Path]:
    """Files below a folder; none when the folder is missing. A folder that cannot be read is an error, not empty."""
    try:
        entries = list(os.scandir(start))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield Path(entry.path)


def _make_directory(path: Path) -> None:
    """Like mkdir -p, with every new name flushed to the disk."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
