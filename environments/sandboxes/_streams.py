"""Talking to a guard through a blocking connection to a daemon, from asyncio.

    Stream (one per daemon): send, receive, close      converse(open, request, ...) -> what the guard said

Every blocking call is a thread's; a time-out or cancellation closes the stream, at which both thread and guard end.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from assay.errors import SandboxError, SandboxLaunchError
from environments.sandboxes._guarded import GRACE_S, READY, START_S, OutOfTime

T = TypeVar("T")


class Stream(Protocol):
    """A program's standard streams, elsewhere. Errors of the connection are OSError."""

    complaint: str  # what it wrote to standard error

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes:
        """More of standard output; empty at its end."""
        ...

    def close(self) -> None:
        """From any thread: the program sees the end of its input, and `receive` returns or raises."""
        ...


async def converse(open_stream: Callable[[], Stream], request: bytes, timeout_s: float, max_reply: int) -> bytes:
    """`GuardedSandbox._converse` for a guard that `open_stream` starts."""
    stream = await _in_time(asyncio.to_thread(_opened, open_stream), START_S, lambda: None)
    try:
        first = await _in_time(asyncio.to_thread(_begun, stream, request), START_S, stream.close)
        if not first.startswith(READY):
            said = stream.complaint.strip()[-1500:] or first[:200].decode(errors="replace")
            raise SandboxLaunchError(f"The command could not be run: {said or 'its guard was killed at the start'}.")
        rest = asyncio.to_thread(_received, stream, first[len(READY) :], max_reply)
        return await _in_time(rest, timeout_s + GRACE_S, stream.close)
    finally:
        await asyncio.to_thread(stream.close)


async def _in_time(work: Coroutine[Any, Any, T], timeout_s: float, give_up: Callable[[], None]) -> T:
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.wait_for(asyncio.shield(running), timeout_s)
    except TimeoutError as error:
        give_up()
        raise OutOfTime from error
    except asyncio.CancelledError:
        give_up()
        raise


def _opened(open_stream: Callable[[], Stream]) -> Stream:
    try:
        return open_stream()
    except SandboxError:
        raise
    except Exception as error:
        raise SandboxLaunchError(f"The command could not be started: {error}; try again.") from error


def _begun(stream: Stream, request: bytes) -> bytes:
    """The first words of the guard, at least as long as READY unless it ended."""
    try:
        stream.send(request)
    except OSError as error:
        stream.complaint += f"The connection broke: {error}"
        return b""
    return _received(stream, b"", len(READY))


def _received(stream: Stream, said: bytes, enough: int) -> bytes:
    data = bytearray(said)
    while len(data) < enough:
        try:
            chunk = stream.receive()
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    return bytes(data)
