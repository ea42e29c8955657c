"""Assay's side of the supervisor: starts it, asks it, and ends it with the last user.

Usable from any event loop or thread: each request has a connection of its own.
"""

import asyncio
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import SandboxLaunchError, SandboxUnavailable
from environments.sandboxes import _wire

_CODE = "import sys; sys.path.insert(0, sys.argv[3]); from environments.sandboxes._supervise import main; main()"
_START_S = 30.0
_END_S = 10.0

Reply = tuple[_wire.Header, bytes, list[int]]


class Client:
    """One running supervisor. Raises SandboxUnavailable when it cannot isolate on this machine."""

    def __init__(self, options: dict[str, Any]) -> None:
        with explained():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = _spawn(theirs.fileno(), options)
        self._control, self._process = ours, process
        self._finalizer = weakref.finalize(self, _end, ours, process)
        greeting = self._greeting()
        self.limits: tuple[str, ...] = tuple(greeting["limits"])
        self.capabilities: frozenset[str] = frozenset(greeting["capabilities"])

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the supervisor and every sandbox it has. Idempotent."""
        self._finalizer()

    async def request(self, header: _wire.Header, *descriptors: int) -> Reply:
        """Ask and wait for the answer; when cancelled, the supervisor ends what was asked for."""
        with self.ask(header, *descriptors) as connection:
            await readable(connection)
            return reply_of(connection)

    def request_now(self, header: _wire.Header, *descriptors: int) -> Reply:
        """Ask and block until the answer is there (at most 30 s)."""
        with self.ask(header, *descriptors) as connection:
            if not select.select([connection], [], [], _START_S)[0]:
                raise SandboxLaunchError(f"The sandbox supervisor did not answer within {_START_S:.0f} s; try again.")
            return reply_of(connection)

    def post(self, header: _wire.Header) -> None:
        """Ask without waiting for an answer."""
        if self.alive:
            self.ask(header).close()

    def ask(self, header: _wire.Header, *descriptors: int) -> socket.socket:
        """Ask; the answer comes on the socket returned."""
        if self._control.fileno() < 0:
            raise _gone()
        with explained():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    _wire.send(self._control, header, descriptors=(theirs.fileno(), *descriptors))
                except OSError:
                    ours.close()
                    raise
        return ours

    def _greeting(self) -> _wire.Header:
        if not select.select([self._control], [], [], _START_S)[0]:
            self.close()
            raise SandboxUnavailable(f"The sandbox supervisor did not start within {_START_S:.0f} s.")
        received = _wire.receive(self._control)
        if received is None or "error" in received[0]:
            self.close()
            reason = received[0]["error"] if received else "it ended at once; see its message above"
            raise SandboxUnavailable(f"This machine does not let Assay isolate: {reason}. {ADVICE}")
        return received[0]


ADVICE = (
    "Sandboxes need user namespaces. Allow them (sysctl user.max_user_namespaces above 0, "
    "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in a container run it with "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined), then try again."
)


def _spawn(control: int, options: dict[str, Any]) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-I", "-S", "-c", _CODE, str(control), json.dumps(options), str(root)]
    # Nothing secret may reach a sandbox; the one variable kept lets some interpreters find their own library.
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return subprocess.Popen(
        command,
        env=env,
        cwd="/",
        pass_fds=[control],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for Assay, which then ends its sandboxes in order
    )


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _gone() -> SandboxLaunchError:
    return SandboxLaunchError("The sandbox supervisor has ended, and its sandboxes with it; create new ones.")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """What goes wrong between Assay and the supervisor, as SandboxLaunchError."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise _gone() from error
    except OSError as error:
        raise SandboxLaunchError(f"The sandbox supervisor could not be asked: {error}.") from error


def reply_of(connection: socket.socket) -> Reply:
    with explained():
        received = _wire.receive(connection)
    if received is None:
        raise _gone()
    return received


async def readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(connection)
