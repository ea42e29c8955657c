"""Reading and writing files in a place that an agent controls, without being led elsewhere.

Every path is walked from an open directory, one name at a time, and no link is followed: what is opened lies below it.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence

from assay.errors import SandboxError

MAX_DEPTH = 128  # folders in folders that are gone through: each is held open

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, or opening a FIFO that the agent left would wait for ever.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(root: int, path: str, max_bytes: int) -> bytes:
    """The bytes of the regular file `path` below the open directory `root`. Raises SandboxError otherwise."""
    with folder_of(root, path, make_for=None) as (folder, name), explained("read", path):
        fd = os.open(name, READ, dir_fd=folder)
        try:
            _check_regular(os.fstat(fd), path, max_bytes)
            return _read_all(fd, path, max_bytes)
        finally:
            os.close(fd)


def write_file(root: int, path: str, data: bytes, owner: tuple[int, int], mode: int = 0o644) -> None:
    """Create or replace `path` below `root` in one step, owned by `owner` (uid, gid); missing folders are made."""
    checked_mode(mode)
    with folder_of(root, path, make_for=owner) as (folder, name), explained("write", path):
        temporary = f".{secrets.token_hex(8)}"
        fd = os.open(temporary, CREATE, 0o600, dir_fd=folder)
        try:
            write_all(fd, data)
            os.fchmod(fd, mode)  # whatever the umask; before the file is another's
            os.fchown(fd, *owner)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(fd)


def parts(path: str) -> list[str]:
    """The names a path goes through; SandboxError for a path that could lead elsewhere."""
    names = path.split("/")
    encodable = path.encode("utf-8", "replace").decode() == path
    if not encodable or "\0" in path or any(part in ("", ".", "..") for part in names):
        raise SandboxError(
            f"The path {path!r} is not allowed: give one relative to the work dir, without empty parts, '.' or '..'."
        )
    return names


@contextlib.contextmanager
def folder_of(root: int, path: str, make_for: tuple[int, int] | None) -> Iterator[tuple[int, str]]:
    """The open folder that holds `path`, and the last name; folders are made when `make_for` gives their owner."""
    *folders, name = parts(path)
    with contextlib.ExitStack() as opened:
        with explained("open the folder of", path):
            folder = opened.enter_context(open_folder(root, folders, make_for))
        yield folder, name


@contextlib.contextmanager
def open_folder(root: int, names: Sequence[str], make_for: tuple[int, int] | None = None) -> Iterator[int]:
    """The open folder that `names` lead to from `root`, without links; made as in `folder_of`. Raises OSError."""
    current = os.dup(root)
    try:
        for name in names:
            below = _enter(current, name, make_for)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _enter(folder: int, name: str, make_for: tuple[int, int] | None) -> int:
    if make_for is None:
        return os.open(name, FOLDER, dir_fd=folder)
    created = True
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        created = False
    below = os.open(name, FOLDER, dir_fd=folder)
    if created:
        os.fchown(below, *make_for)
    return below


def _check_regular(status: os.stat_result, path: str, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SandboxError(
            f"{path!r} is not a regular file (mode {stat.filemode(status.st_mode)}); only those are read."
        )
    check_links_and_size(path, status.st_nlink, status.st_size, max_bytes)


def check_links_and_size(path: str, num_links: int, size: int, max_bytes: int) -> None:
    """Raise SandboxError unless a regular file has one name and is small enough."""
    if num_links != 1:
        raise SandboxError(f"{path!r} has {num_links} hard links; only files with one name are read.")
    if size > max_bytes:
        raise _too_large(path, size, max_bytes)


def checked_mode(mode: int) -> int:
    """The mode, if it consists of permissions only."""
    if mode & ~0o777:
        raise SandboxError(f"The mode {mode:#o} is not allowed: permissions only, from 0o0 to 0o777.")
    return mode


def _read_all(fd: int, path: str, max_bytes: int) -> bytes:
    chunks, size = [], 0
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:  # it grew while being read
            raise _too_large(path, size, max_bytes)
    return b"".join(chunks)


HOLES_RULE = "above 8 MiB, an eighth of a file must be really there"


def mostly_holes(status: os.stat_result) -> bool:
    """True for a sparse file that breaks HOLES_RULE."""
    return status.st_size > 8 << 20 and status.st_blocks * 512 < status.st_size // 8


def _too_large(path: str, size: int, max_bytes: int) -> SandboxError:
    return SandboxError(
        f"{path!r} has {size} bytes but at most {max_bytes} are read; raise max_bytes if that is meant."
    )


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def explained(action: str, path: str) -> Iterator[None]:
    """OSError -> SandboxError."""
    try:
        yield
    except OSError as error:
        raise SandboxError(f"Cannot {action} {path!r} in the sandbox: {error.strerror}.") from error
