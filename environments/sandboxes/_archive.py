"""Reading tar archives that nobody vouches for: forward only, within caps, and every kind of damage is one error.

Python's tarfile parses; what it trusts an archive with (sizes of headers, seeking, a silent end) is bounded here.
"""

import contextlib
import tarfile
from collections.abc import Iterator
from typing import IO, Any, Protocol, cast

from assay.errors import SandboxError

CHUNK = 1 << 20
_HEADER_ROOM = 1 << 20  # for the names, attributes and sparse map of one entry
_END = bytes(tarfile.BLOCKSIZE)


class Source(Protocol):
    """Where bytes come from; a plain file, a pipe or a decompressor."""

    def read(self, size: int, /) -> bytes: ...


class Archive:
    """The entries of a tar, once, in order: `for entry in archive`, with `archive.chunks(entry)` for its bytes.

    A `seekable` source must be at its start.
    Raises SandboxError for damage, for an archive that ends early and for more than `max_bytes` when unpacked.
    """

    def __init__(self, source: Source, max_bytes: int, *, seekable: bool = False) -> None:
        self._input = _Forward(source, max_bytes, seekable)
        self._tar: tarfile.TarFile | None = None

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while (entry := self._next()) is not None:
            yield entry

    def chunks(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        """The bytes of a regular file, of which there are exactly `entry.size`; read before the next entry."""
        assert self._tar is not None
        self._input.header_room = None
        with explained():
            content = self._tar.extractfile(entry)
            while content is not None and (chunk := content.read(CHUNK)):
                yield chunk

    def _next(self) -> tarfile.TarInfo | None:
        self._input.header_room = _HEADER_ROOM
        with explained():
            if self._tar is None:
                self._tar = tarfile.open(  # noqa: SIM115 - it owns nothing
                    fileobj=cast(IO[bytes], self._input), mode="r:", encoding="utf-8", errors="surrogateescape"
                )
            entry = self._tar.next()
            self._tar.members = []  # type: ignore[attr-defined] # it would remember every entry
            if entry is None and self._input.last != _END:
                raise SandboxError("The archive ends too early or is damaged: its end mark is missing; make it again.")
            if entry is not None and entry.size < 0:
                raise SandboxError(f"The archive is damaged: {entry.name!r} has {entry.size} bytes; make it again.")
            return entry


class _Forward:
    """A file for tarfile that only goes forward and hands out neither too much at once nor too much in all."""

    def __init__(self, source: Source, max_bytes: int, seekable: bool) -> None:
        self._source, self._max_bytes, self._at = source, max_bytes, 0
        self._seek = cast(Any, source).seek if seekable else None
        self.header_room: int | None = None
        self.last = b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._at:
            raise SandboxError("The archive is damaged: an entry points backwards; make it again.")
        if self._seek is not None:
            self._at = self._seek(offset)
        while self._at < offset and self._take(min(CHUNK, offset - self._at)):
            pass
        return self._at

    def read(self, size: int) -> bytes:
        if self.header_room is not None:
            self.header_room -= size
            if self.header_room < 0:
                raise SandboxError(f"The archive is refused: headers of one entry exceed {_HEADER_ROOM} bytes.")
        chunks = []
        while size and (chunk := self._take(min(CHUNK, size))):
            chunks.append(chunk)
            size -= len(chunk)
        self.last = b"".join(chunks)
        return self.last

    def _take(self, size: int) -> bytes:
        chunk = self._source.read(size)
        self._at += len(chunk)
        if chunk and self._at > self._max_bytes:
            raise SandboxError(f"The archive unpacks to more than {self._max_bytes} bytes, which is the most allowed.")
        return chunk


@contextlib.contextmanager
def explained() -> Iterator[Any]:
    """Anything the parser or a decompressor stumbles over, as one error."""
    try:
        yield
    except (SandboxError, MemoryError, GeneratorExit):
        raise
    except Exception as error:
        raise SandboxError(
            f"The archive is damaged or no tar: {str(error) or type(error).__name__}; make it again."
        ) from error
