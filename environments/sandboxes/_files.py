"""Reading and writing files in a place that an agent controls, without being led elsewhere.

Every path is walked from an open directory, one name at a time, and no link is followed: what is opened lies below it.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator

from assay.errors import SandboxError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, or opening a FIFO that the agent left would wait for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(root: int, path: str, max_bytes: int) -> bytes:
    """The bytes of the regular file `path` below the open directory `root`. Raises SandboxError otherwise."""
    with _folder_of(root, path, make_for=None) as (folder, name), _explained("read", path):
        fd = os.open(name, _READ, dir_fd=folder)
        try:
            _check_regular(os.fstat(fd), path, max_bytes)
            return _read_all(fd, path, max_bytes)
        finally:
            os.close(fd)


def write_file(root: int, path: str, data: bytes, owner: tuple[int, int]) -> None:
    """Create or replace `path` below `root` in one step, owned by `owner` (uid, gid); missing folders are made."""
    with _folder_of(root, path, make_for=owner) as (folder, name), _explained("write", path):
        temporary = f".{secrets.token_hex(8)}"
        fd = os.open(temporary, _CREATE, 0o644, dir_fd=folder)
        try:
            os.fchown(fd, *owner)
            _write_all(fd, data)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(fd)


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    encodable = path.encode("utf-8", "replace").decode() == path
    if not encodable or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise SandboxError(
            f"The path {path!r} is not allowed: give one relative to the work dir, without empty parts, '.' or '..'."
        )
    return parts


@contextlib.contextmanager
def _folder_of(root: int, path: str, make_for: tuple[int, int] | None) -> Iterator[tuple[int, str]]:
    """The open folder that holds `path`, and the last name; folders are made when `make_for` gives their owner."""
    *folders, name = _parts(path)
    current = os.dup(root)
    try:
        for part in folders:
            with _explained("open the folder of", path):
                below = _enter(current, part, make_for)
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)


def _enter(folder: int, name: str, make_for: tuple[int, int] | None) -> int:
    if make_for is None:
        return os.open(name, _FOLDER, dir_fd=folder)
    created = True
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        created = False
    below = os.open(name, _FOLDER, dir_fd=folder)
    if created:
        os.fchown(below, *make_for)
    return below


def _check_regular(status: os.stat_result, path: str, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SandboxError(
            f"{path!r} is not a regular file (mode {stat.filemode(status.st_mode)}); only those are read."
        )
    if status.st_nlink != 1:
        raise SandboxError(f"{path!r} has {status.st_nlink} hard links; only files with one name are read.")
    if status.st_size > max_bytes:
        raise _too_large(path, status.st_size, max_bytes)


def _read_all(fd: int, path: str, max_bytes: int) -> bytes:
    chunks, size = [], 0
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:  # it grew while being read
            raise _too_large(path, size, max_bytes)
    return b"".join(chunks)


def _too_large(path: str, size: int, max_bytes: int) -> SandboxError:
    return SandboxError(
        f"{path!r} has {size} bytes but at most {max_bytes} are read; raise max_bytes if that is meant."
    )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def _explained(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxError(f"Cannot {action} {path!r} in the sandbox: {error.strerror}.") from error
