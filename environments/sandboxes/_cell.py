"""One bwrap inside the supervisor, from fork to the moment when nothing of it is left.

    fork bwrap -> a shell inside waits for a script -> the script becomes the command -> bwrap ends
               -> PID 1 is killed and with it everything inside -> the result is sent

Launching and running are two steps, so a cell can wait, untouched, for a command that comes later. Every step is an
event on a descriptor: the supervisor never waits for a single cell.
"""

import contextlib
import functools
import json
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from environments.sandboxes import _memory, _wire
from environments.sandboxes._boxes import Files
from environments.sandboxes._cgroups import Cgroups
from environments.sandboxes._jail import Jail
from environments.sandboxes._launch import NOT_EXECUTED, SCRIPT, Restraint, encoded, launch
from environments.sandboxes._request import UNKNOWN_COMMAND, UNUSABLE_COMMAND, Request

# Output beyond the cap is thrown away for a while (`cat big.log` may end well); a flood is ended.
_FLOOD_FACTOR = 16
_CHUNK = 65536
_NO_FOLDER = "bwrap: Can't chdir to "
_SAID_BY_SHELL = re.compile(r"/dev/fd/\d+: (line )?\d+: (exec: )?")


@dataclass(eq=False, slots=True)
class Box:
    """The supervisor's side of one sandbox. `group` names its cgroup; `ready` is a cell that waits for a command.

    Processes are counted per user. A box's own user is limited `before` bwrap starts; a user who has more processes
    `after`, inside; and where the cgroup counts them, that is the limit.
    """

    group: str
    files: Files
    limits: Mapping[str, int]
    count: Literal["before", "after", "group"]
    id: str = ""
    cells: set["Cell"] = field(default_factory=set)
    sessions: dict[str, "Cell"] = field(default_factory=dict)
    ready: "Cell | None" = None
    used: bool = False
    num_oom_kills: int = 0
    leaving: bool = False
    removed: bool = False
    when_empty: list[Callable[[], None]] = field(default_factory=list)


class Host(Protocol):
    """What a cell needs from the supervisor."""

    jail: Jail
    filter: str
    cgroups: Cgroups | None

    def watch(self, fd: int, callback: Callable[[], None]) -> None: ...
    def unwatch(self, fd: int) -> None: ...
    def finished(self, cell: "Cell") -> None: ...


class Cell:
    """A bwrap that waits, runs or has ended. `deadline` is monotonic seconds once it runs."""

    def __init__(self, host: Host, box: Box) -> None:
        self.box = box
        self.deadline = float("inf")
        self.request: Request | None = None
        self.connection: socket.socket | None = None
        self._host = host
        self._killed = ""  # why: timed_out, flooded, memory, cancelled
        self._failure = ""
        self._truncated = False
        self._output = {"stdout": bytearray(), "stderr": bytearray()}
        self._num_seen = {"stdout": 0, "stderr": 0}
        self._pipes: dict[str, int] = {}
        self._status = b""
        self._outer = self._outer_fd = self._init = self._init_fd = self._input = -1
        self._cpu_s, self._peak = 0.0, 0
        self._began = 0.0

    # --- launching ----------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Fork bwrap with a shell that waits for `run`. Raises OSError when the machine has no process left."""
        self._input = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        waiting = ["/bin/sh", "-c", f". /dev/fd/{SCRIPT}"]
        self._launch(lambda fds: self._words(fds, waiting, {}, ""), self._input, ("script",))

    def run(self, request: Request) -> bool:
        """Let the waiting shell become the command; False, with nothing done, where only `launch_command` can."""
        script = request.script(SCRIPT)
        if script is None:
            return False
        _fill(self._input, request.stdin)
        try:
            os.write(self._pipes["script"], encoded(script))
        except BrokenPipeError:
            return False  # it was killed while it waited
        os.close(self._pipes.pop("script"))
        self._start(request)
        return True

    def launch_command(self, request: Request) -> None:
        """Fork bwrap with the command itself. Raises OSError."""
        self._launch(lambda fds: self._words(fds, request.argv, request.env, request.cwd), request.stdin, ())
        self._start(request)

    def launch_session(self, connection: socket.socket, argv: list[str], env: Mapping[str, str], control: int) -> None:
        """Fork bwrap with a program that is PID 1 and has the descriptor `control`. Raises OSError."""
        self.connection = connection

        def words(fds: Mapping[str, int]) -> list[str]:
            return self._words(fds, [*argv, str(fds["control"])], env, "", "--as-pid-1")

        with open(os.devnull, "rb") as nothing:
            self._launch(words, nothing.fileno(), (), {"control": control}, endless=True)

    def _launch(
        self,
        words: Callable[[Mapping[str, int]], list[str]],
        stdin: int,
        pipes: tuple[str, ...],
        passed: Mapping[str, int] | None = None,
        *,
        endless: bool = False,
    ) -> None:
        limits = {name: value for name, value in self.box.limits.items() if not (endless and name == "cpu_s")}
        user = self.box.files.owner if os.getuid() == 0 else None
        groups = self._host.cgroups.doors(self.box.group) if self._host.cgroups else []
        restraint = Restraint(user=user, own_user=self.box.count == "before", limits=limits, groups=groups)
        pipes = (*pipes, "block") if self.box.count == "after" else pipes
        filter_fd = os.open(self._host.filter, os.O_RDONLY | os.O_CLOEXEC)  # bwrap reads it to its end
        try:
            descriptors = {"seccomp": filter_fd, **(passed or {})}
            self._outer, self._pipes = launch(words, restraint, stdin=stdin, passed=descriptors, pipes=pipes)
        finally:
            os.close(filter_fd)
        self._outer_fd = os.pidfd_open(self._outer)
        self._host.watch(self._outer_fd, self._on_outer_exit)
        self._host.watch(self._pipes["status"], self._on_status)
        for name in ("stdout", "stderr"):
            self._host.watch(self._pipes[name], functools.partial(self._on_output, name))

    def _words(
        self, fds: Mapping[str, int], argv: list[str], env: Mapping[str, str], cwd: str, *flags: str
    ) -> list[str]:
        files = self.box.files
        words, variables = self._host.jail.command(
            files.root(), files.binds(), files.place.work_dir, env, files.place.image
        )
        words += [word for name, value in variables.items() for word in ("--setenv", name, value)]
        words += ["--chdir", cwd or files.place.work_dir, *flags]
        words += ["--seccomp", str(fds["seccomp"]), "--json-status-fd", str(fds["status"])]
        words += ["--block-fd", str(fds["block"])] if "block" in fds else []
        return [*words, "--", *argv]

    def _start(self, request: Request) -> None:
        self.request, self.connection = request, request.connection
        self._began = time.monotonic()
        self.deadline = self._began + request.timeout_s
        if self._host.cgroups and self.box.used:
            self._host.cgroups.forget_peak(self.box.group)
        self.box.used = True

    # --- ending -------------------------------------------------------------------------------------------------------

    def check_memory(self) -> None:
        """For machines where nothing counts a sandbox's memory: end it when it holds too much."""
        if self._init > 0 and not self._killed and _memory.exceeds(self._init, self.box.limits["memory_bytes"]):
            self.kill("memory")

    def kill(self, reason: str) -> None:
        """End everything inside; the result follows when it is gone."""
        self._killed = self._killed or reason
        self.deadline = float("inf")
        # Before PID 1 is known bwrap must live on, or PID 1 would be left behind, waiting for ever.
        if self._init_fd >= 0:
            self._signal_tree()

    # --- events -------------------------------------------------------------------------------------------------------

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
        """PID 1 is known; where it waits, limit what can only be limited now and let it go on."""
        if self._killed:
            self._signal_tree()
        elif "block" in self._pipes:
            most = self.box.limits["max_processes"]
            try:
                resource.prlimit(self._init, resource.RLIMIT_NPROC, (most, most))
            except OSError as error:
                self._failure = f"Cannot limit the sandbox: {error}."
                self._signal_tree()
            else:
                os.write(self._pipes["block"], b"1")

    def _on_output(self, name: str) -> None:
        try:
            chunk = os.read(self._pipes[name], _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._host.unwatch(self._pipes[name])
        self._keep(name, chunk)
        if sum(self._num_seen.values()) > _FLOOD_FACTOR * (self._max_output() + _CHUNK):
            self.kill("flooded")

    def _max_output(self) -> int:
        return self.request.max_output if self.request else _CHUNK

    def _keep(self, name: str, chunk: bytes) -> None:
        room = self._max_output() - len(self._output[name])
        self._output[name] += chunk[:room]
        self._num_seen[name] += len(chunk)
        self._truncated = self._truncated or len(chunk) > room

    def _on_outer_exit(self) -> None:
        self._wall_s = time.monotonic() - self._began
        self.deadline = float("inf")
        self._host.unwatch(self._outer_fd)
        self._on_status()  # if bwrap was killed early, PID 1 may not be known yet
        self._outer_status = self._reap(self._outer)
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
            self._reap(self._init)
        self._finish()

    def _reap(self, pid: int) -> int:
        """Wait status; what the process and those it waited for used is added up."""
        _, status, usage = os.wait4(pid, 0)
        self._cpu_s += usage.ru_utime + usage.ru_stime
        self._peak = max(self._peak, usage.ru_maxrss * 1024)
        return status

    def _signal_tree(self) -> None:
        if self._outer_fd >= 0:
            signal.pidfd_send_signal(self._outer_fd, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)

    # --- the result ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        for name in ("stdout", "stderr"):
            self._drain(name)
        self._on_status()
        if self.connection is not None:
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
        usage = self._host.cgroups.usage(self.box.group) if self._host.cgroups else None
        before, self.box.num_oom_kills = self.box.num_oom_kills, usage.num_oom_kills if usage else 0
        return {
            "exit_code": None if ended is None or ended < 0 else ended,
            "signal": -ended if ended is not None and ended < 0 else None,
            "num_stdout": len(self._output["stdout"]),
            "truncated": self._truncated,
            "timed_out": self._killed == "timed_out",
            "oom_killed": self._killed == "memory" or self.box.num_oom_kills > before,
            "wall_s": self._wall_s,
            "cpu_s": self._cpu_s,
            "peak_memory_bytes": usage.peak_memory_bytes if usage and usage.peak_memory_bytes else self._peak,
            "error": error,
        }

    def _ending(self) -> tuple[int | None, str]:
        """Exit code, or minus the signal, or None; and what kept the command from running, if anything did."""
        if self._failure or self._killed:
            return (None if self._killed == "timed_out" else -signal.SIGKILL), self._failure
        codes = [line["exit-code"] for line in map(json.loads, self._status.splitlines()) if "exit-code" in line]
        said = self._output["stderr"].decode(errors="replace")
        if codes:
            if codes[0] in (UNKNOWN_COMMAND, UNUSABLE_COMMAND):
                self._output["stderr"] = bytearray(encoded(_SAID_BY_SHELL.sub("", said, count=1)))
            # bwrap reports a signal as shells do, so a plain `exit 137` reads as SIGKILL too.
            return (128 - codes[0] if 128 < codes[0] <= 128 + signal.NSIG else codes[0]), ""
        said = said.strip()
        if said.startswith((NOT_EXECUTED, _NO_FOLDER)):
            self._output["stderr"] = bytearray(encoded(said.removeprefix(NOT_EXECUTED).removeprefix("bwrap: ") + "\n"))
            missing = said.startswith(NOT_EXECUTED) and "No such file" in said
            return (UNKNOWN_COMMAND if missing else UNUSABLE_COMMAND), ""
        return None, said or f"bwrap ended with wait status {self._outer_status} before the command ran"

    def _send(self, header: dict[str, Any], payload: bytes) -> None:
        # Whoever asked may have been cancelled.
        assert self.connection is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _wire.send(self.connection, header, payload)

    def _close(self) -> None:
        stdin = self.request.stdin if self.request else -1
        for fd in (*self._pipes.values(), self._init_fd, self._outer_fd, self._input, stdin):
            if fd >= 0:
                self._host.unwatch(fd)
                os.close(fd)
        if self.connection is not None:
            self._host.unwatch(self.connection.fileno())
            self.connection.close()


def _fill(target: int, source: int) -> None:
    """Copy an open file into a memory file and make that read-only."""
    offset = 0
    while chunk := os.pread(source, 1 << 20, offset):
        offset += os.pwrite(target, chunk, offset)
    _wire.seal(target)
