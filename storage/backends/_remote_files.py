"""Remote objects as files for DuckDB, for machines where its own S3 reader is not installed.

Committed objects never change, so there is nothing to look up: a small object is fetched whole, in one request, and
kept; of a large one only the ranges are read that DuckDB asks for. Listing and looking for changes, which general
file systems do for every file of every query, would cost more than the data.
"""

import io
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from fsspec import AbstractFileSystem

SMALL = 8 << 20
KEPT_BYTES = 256 << 20
Fetch = Callable[[str, int, int], tuple[bytes, int]]
"""(key, first byte, number of bytes) -> (those bytes, the object's whole size)."""


class RemoteFiles(AbstractFileSystem):
    """A read-only file system below `root` (`s3://bucket/prefix`). Threads may share it."""

    protocol: ClassVar[str] = "s3"
    cachable = False

    def __init__(self, root: str, fetch: Fetch) -> None:
        super().__init__()
        self._root = f"{root.rstrip('/')}/"
        self._fetch = fetch
        self._lock = threading.Lock()
        self._small: OrderedDict[str, bytes] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self.failure: Exception | None = None
        """The last error of a read: DuckDB passes on only its text."""

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself, unescaped: names come from commits, so they exist."""
        return [re.sub(r"\[([*?\[])\]", r"\1", path)]

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.IOBase:
        if mode != "rb":
            raise PermissionError(f"{path} is read-only")
        data = self._whole(path)
        return io.BytesIO(data) if data is not None else _Ranges(self, path)

    def size(self, path: str) -> int:
        if path not in self._sizes:
            self._whole(path)
        return self._sizes[path]

    def modified(self, path: str) -> datetime:
        """Always the same: what is committed does not change."""
        return datetime.fromtimestamp(0, UTC)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._asked(path, start, length)[0]

    def _whole(self, path: str) -> bytes | None:
        """A small object's bytes; None for a large one, whose size is known afterwards."""
        with self._lock:
            if path in self._small:
                self._small.move_to_end(path)
                return self._small[path]
            if self._sizes.get(path, 0) > SMALL:
                return None
        data, size = self._asked(path, 0, SMALL)
        with self._lock:
            self._sizes[path] = size
            if size > SMALL:
                return None
            self._small[path] = data
            while sum(map(len, self._small.values())) > KEPT_BYTES:
                self._small.popitem(last=False)
        return data

    def _asked(self, path: str, start: int, length: int) -> tuple[bytes, int]:
        try:
            return self._fetch(path.removeprefix(self._root), start, length)
        except Exception as error:
            self.failure = error
            raise


class _Ranges(io.RawIOBase):
    """A large object; every read is one ranged request, as large as DuckDB makes it."""

    def __init__(self, files: RemoteFiles, path: str) -> None:
        super().__init__()
        self._files, self._path, self._at = files, path, 0
        self._size = files.size(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._files.read_range(self._path, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
