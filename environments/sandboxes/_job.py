"""One sandboxed command inside the supervisor, from fork to the moment when nothing of it is left.

    fork bwrap -> it reports PID 1, which waits -> limits are set on PID 1 -> the command runs -> bwrap ends
               -> PID 1 is killed and with it everything inside -> the result is sent

Every step is an event on a descriptor, so the supervisor never waits for a single job.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from environments.sandboxes import _memory, _wire
from environments.sandboxes._jail import Jail
from environments.sandboxes._launch import NOT_EXECUTED, encoded, launch

# Output beyond the cap is thrown away for a while (`cat big.log` may end well); a flood is ended.
_FLOOD_FACTOR = 16
_CHUNK = 65536
_UNKNOWN_COMMAND, _UNUSABLE_COMMAND = 127, 126  # as shells answer


@dataclass(eq=False, slots=True)
class Box:
    """The supervisor's side of one sandbox."""

    id: str
    uid: int
    gid: int
    limits: Mapping[str, int]
    jobs: set["Job"] = field(default_factory=set)


class Host(Protocol):
    """What a job needs from the supervisor."""

    jail: Jail
    filter: bytes
    as_root: bool

    def watch(self, fd: int, callback: Callable[[], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...
    def confine(self, box: Box, pid: int) -> None: ...
    def finished(self, job: "Job") -> None: ...


class Job:
    """A command that waits, runs or has ended. `deadline` is monotonic seconds once it runs."""

    def __init__(self, host: Host, box: Box, connection: socket.socket, request: Mapping[str, Any], stdin: int) -> None:
        self.box, self.connection = box, connection
        self.deadline = float("inf")
        self._host, self._request, self._stdin = host, request, stdin
        self._killed = ""  # why: timed_out, flooded, memory, cancelled
        self._failure = ""
        self._truncated = False
        self._output = {"stdout": bytearray(), "stderr": bytearray()}
        self._num_seen = {"stdout": 0, "stderr": 0}
        self._pipes: dict[str, int] = {}
        self._status = b""
        self._outer = self._outer_fd = self._init = self._init_fd = -1

    def start(self) -> None:
        """Fork bwrap. Raises OSError when the machine has no process or descriptor left."""
        user = (self.box.uid, self.box.gid) if self._host.as_root else None
        self._outer, self._pipes = launch(self._command, self._stdin, self._host.filter, user, self.box.limits)
        self._began = time.monotonic()
        self.deadline = self._began + self._request["timeout_s"]
        self._outer_fd = os.pidfd_open(self._outer)
        self._host.watch(self._outer_fd, self._on_outer_exit)
        self._host.watch(self._pipes["status"], self._on_status)
        for name in ("stdout", "stderr"):
            self._host.watch(self._pipes[name], functools.partial(self._on_output, name))

    def check_memory(self) -> None:
        """For machines where nothing counts a sandbox's memory: end it when it holds too much."""
        if self._init > 0 and not self._killed and _memory.exceeds(self._init, self.box.limits["memory_bytes"]):
            self.kill("memory")

    def kill(self, reason: str) -> None:
        """End everything the command started; the result follows when it is gone."""
        self._killed = self._killed or reason
        self.deadline = float("inf")
        # Before PID 1 is known bwrap must live on, or PID 1 would be left behind, waiting for ever.
        if self._init_fd >= 0:
            self._signal_tree()

    def refuse(self, message: str) -> None:
        """Answer without having run."""
        self._send({"error": message}, b"")
        self._close()

    def _command(self, fds: Mapping[str, int]) -> list[str]:
        argv, env = self._request["argv"], self._request["env"]
        pipes = {name: fds[name] for name in ("seccomp", "status", "block")}
        return self._host.jail.command(self.box.id, argv, env, **pipes)

    def _on_status(self) -> None:
        try:
            chunk = os.read(self._pipes["status"], _CHUNK)
        except BlockingIOError:
            return
        self._status += chunk
        if not chunk:
            self._host.unwatch(self._pipes["status"])
        if self._init < 0 and b"\n" in self._status:
            self._init = int(json.loads(self._status.split(b"\n")[0])["child-pid"])
            with contextlib.suppress(ProcessLookupError):
                self._init_fd = os.pidfd_open(self._init)
                self._release()

    def _release(self) -> None:
        """PID 1 waits: limit what can only be limited now, then let it go on."""
        if self._killed:
            self._signal_tree()
            return
        try:
            self._host.confine(self.box, self._init)
        except OSError as error:
            self._failure = f"Cannot limit the sandbox: {error}."
            self._signal_tree()
            return
        os.write(self._pipes["block"], b"1")

    def _on_output(self, name: str) -> None:
        try:
            chunk = os.read(self._pipes[name], _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._host.unwatch(self._pipes[name])
        self._keep(name, chunk)
        if sum(self._num_seen.values()) > _FLOOD_FACTOR * (self._request["max_output"] + _CHUNK):
            self.kill("flooded")

    def _keep(self, name: str, chunk: bytes) -> None:
        room = self._request["max_output"] - len(self._output[name])
        self._output[name] += chunk[:room]
        self._num_seen[name] += len(chunk)
        self._truncated = self._truncated or len(chunk) > room

    def _on_outer_exit(self) -> None:
        self._wall_s = time.monotonic() - self._began
        self.deadline = float("inf")
        self._host.unwatch(self._outer_fd)
        self._on_status()  # if bwrap was killed early, PID 1 may not be known yet
        _, self._outer_status = os.waitpid(self._outer, 0)
        os.close(self._outer_fd)
        self._outer_fd = -1
        if self._init_fd < 0:
            self._finish()
            return
        self._signal_tree()
        self._host.watch(self._init_fd, self._on_init_gone)

    def _on_init_gone(self) -> None:
        self._host.unwatch(self._init_fd)
        # Either bwrap reaped it, or it is an orphan of ours.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._init, 0)
        self._finish()

    def _signal_tree(self) -> None:
        if self._outer_fd >= 0:
            signal.pidfd_send_signal(self._outer_fd, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)

    def _finish(self) -> None:
        for name in ("stdout", "stderr"):
            self._drain(name)
        self._on_status()
        result = self._result()
        self._send(result, bytes(self._output["stdout"] + self._output["stderr"]))
        self._close()
        self._host.finished(self)

    def _drain(self, name: str) -> None:
        """Every writer is dead: what is left is in the pipe."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._pipes[name], _CHUNK):
                self._keep(name, chunk)

    def _result(self) -> dict[str, Any]:
        ended, error = self._ending()
        return {
            "exit_code": None if ended is None or ended < 0 else ended,
            "signal": -ended if ended is not None and ended < 0 else None,
            "num_stdout": len(self._output["stdout"]),
            "truncated": self._truncated,
            "timed_out": self._killed == "timed_out",
            "wall_s": self._wall_s,
            "error": error,
        }

    def _ending(self) -> tuple[int | None, str]:
        """Exit code, or minus the signal, or None; and what kept the command from running, if anything did."""
        if self._failure or self._killed:
            return (None if self._killed == "timed_out" else -signal.SIGKILL), self._failure
        codes = [line["exit-code"] for line in map(json.loads, self._status.splitlines()) if "exit-code" in line]
        if codes:
            # bwrap reports a signal as shells do, so a plain `exit 137` reads as SIGKILL too.
            return (128 - codes[0] if 128 < codes[0] <= 128 + signal.NSIG else codes[0]), ""
        said = self._output["stderr"].decode(errors="replace").strip()
        if said.startswith(NOT_EXECUTED):
            self._output["stderr"] = bytearray(encoded(said.removeprefix(NOT_EXECUTED) + "\n"))
            return (_UNKNOWN_COMMAND if "No such file" in said else _UNUSABLE_COMMAND), ""
        return None, said or f"bwrap ended with wait status {self._outer_status} before the command ran"

    def _send(self, header: dict[str, Any], payload: bytes) -> None:
        # Whoever asked may have been cancelled.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _wire.send(self.connection, header, payload)

    def _close(self) -> None:
        for fd in (*self._pipes.values(), self._init_fd, self._outer_fd, self._stdin):
            if fd >= 0:
                self._host.unwatch(fd)
                os.close(fd)
        self._host.unwatch(self.connection.fileno())
        self.connection.close()
        self.box.jobs.discard(self)
