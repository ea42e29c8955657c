"""A new folder filled with what an agent left: within limits, nothing twice, and a record of what stayed behind."""

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from assay.errors import SandboxError
from environments.sandboxes import _files
from environments.sandboxes.base import Collected, CollectLimits

LOOKED_AT_PER_FILE = 10
# What looking, opening and reading can answer because of how the agent arranged things.
_AGENTS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM, errno.ENXIO, errno.ENODEV),
}


class Refused(Exception):
    """One entry stays behind, for the reason that is the text."""


class Full(Exception):
    """Nothing more is looked at."""


class Basket:
    """The new folder that is being filled, within limits, and the record of it."""

    def __init__(self, folder: int, limits: CollectLimits) -> None:
        self._folder, self._limits = folder, limits
        self.max_depth = min(limits.max_depth, _files.MAX_DEPTH)
        self.left = limits.max_files * LOOKED_AT_PER_FILE
        self._files: dict[str, int] = {}
        self._folders: set[str] = set()
        self._refused: dict[str, str] = {}
        self._num_bytes = 0

    def result(self) -> Collected:
        return Collected(files=tuple(sorted(self._files)), refused=self._refused, num_bytes=self._num_bytes)

    def look(self) -> None:
        """Count one entry; raises Full beyond the cap."""
        self.left -= 1
        if self.left < 0:
            most = self._limits.max_files * LOOKED_AT_PER_FILE
            self.refuse(".", f"more than {most} entries: the rest is not looked at")
            raise Full

    def refuse(self, path: str, reason: str) -> None:
        self._refused[readable(path)] = reason

    @contextlib.contextmanager
    def refusing(self, path: str) -> Iterator[None]:
        """What is the agent's doing becomes a refusal of `path`; other errors are passed on."""
        try:
            yield
        except Refused as refused:
            self.refuse(path, str(refused))
        except OSError as error:
            if error.errno is None or error.errno not in _AGENTS:
                raise
            self.refuse(path, os.strerror(error.errno))

    def check(self, path: str, size: int) -> None:
        """Raise Refused unless one more file of that size fits."""
        limits = self._limits
        if size > limits.max_file_bytes:
            raise Refused(f"{size} bytes; a file may have {limits.max_file_bytes}")
        if len(self._files) >= limits.max_files:
            raise Refused(f"{limits.max_files} files are the most that come along")
        if self._num_bytes + size > limits.max_total_bytes:
            raise Refused(f"{size} bytes; {limits.max_total_bytes} in all are the most that come along")
        above = list(itertools.accumulate(path.split("/")[:-1], lambda folder, name: f"{folder}/{name}"))
        if path in self._files or path in self._folders or not self._files.keys().isdisjoint(above):
            raise Refused("its name is taken by an entry that came before")
        self._folders.update(above)

    def add(self, path: str, size: int, mode: int, chunks: Iterable[bytes]) -> None:
        """Copy one file; raises Refused, and leaves nothing of it, when it is not what it said."""
        *folders, name = path.split("/")
        with _files.open_folder(self._folder, folders, make_for=(os.geteuid(), os.getegid())) as folder:
            fd = os.open(name, _files.CREATE, 0o600, dir_fd=folder)
            try:
                _copy(fd, size, chunks)
                os.fchmod(fd, mode & 0o777 | 0o600)
            except BaseException:
                os.unlink(name, dir_fd=folder)
                raise
            finally:
                os.close(fd)
        self._files[path] = size
        self._num_bytes += size

    def drop(self, path: str) -> None:
        """Take a file out again."""
        if path in self._files:
            *folders, name = path.split("/")
            with _files.open_folder(self._folder, folders) as folder:
                os.unlink(name, dir_fd=folder)
            self._num_bytes -= self._files.pop(path)


@contextlib.contextmanager
def filling(target: Path, limits: CollectLimits) -> Iterator[Basket]:
    """A basket for the new folder `target`, which is removed again when that fails."""
    try:
        target.mkdir(mode=0o700)
        try:
            folder = os.open(target, _files.FOLDER)
            try:
                yield Basket(folder, limits)
            finally:
                os.close(folder)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    except FileExistsError as error:
        raise SandboxError(f"The folder {str(target)!r} exists already; give the name of a new one.") from error
    except OSError as error:
        raise SandboxError(
            f"Files cannot be collected into {str(target)!r}: {error.strerror}; choose another place or make room."
        ) from error


def readable(path: str) -> str:
    """A path with escapes in place of bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _copy(fd: int, size: int, chunks: Iterable[bytes]) -> None:
    left = size
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise Refused(f"it grew beyond {size} bytes while being read")
        _files.write_all(fd, chunk)
    if left:
        raise Refused(f"it ended {left} bytes early")
