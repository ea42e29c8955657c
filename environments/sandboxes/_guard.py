"""Runs one command where it is started and ends everything the command started; it is sent into a sandbox as text.

    stdin   16 digits (length of the request), the request as JSON, the command's input; its end means: give up
    stdout  "ready\\n", later the result as one line of JSON, then the command's stdout and stderr

For tools that can only "run this in there". It needs Python 3.8 on Linux and nothing else of Assay. Nothing of the
command outlives it: orphans come to this process, which kills what is left. A command that runs as the same user may
kill the guard instead; then no result appears, and the backend must clean up.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import time
from typing import Any, Callable, Dict  # noqa: UP035 (Pythons of images may be old)

_FLOOD_FACTOR, _CHUNK = 16, 65536
_UNKNOWN_COMMAND, _UNUSABLE_COMMAND = 127, 126
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 24, 36, 38
_CLONE_NEWPID = 0x20000000
_libc = ctypes.CDLL(None, use_errno=True)
Request = Dict[str, Any]  # noqa: UP006


def main(confine: Callable[[], None] = lambda: None, exceeds: Callable[[int], bool] = lambda pid: False) -> None:
    """`confine` runs in the child just before it becomes the command; `exceeds` says that a tree holds too much."""
    request = json.loads(_exactly(int(_exactly(16))))
    data = _exactly(request["num_stdin"])
    if request["own_pids"]:
        _become_first_process()
    elif _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "Orphans cannot be adopted here")
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # or the command could write to our output
    _write(b"ready\n")
    result, output = Command(request, data, confine, exceeds).run()
    _write(json.dumps(result).encode() + b"\n" + output)


class Command:
    """One command from fork to the moment when nothing of it is left."""

    def __init__(
        self, request: Request, data: bytes, confine: Callable[[], None], exceeds: Callable[[int], bool]
    ) -> None:
        self._request, self._input, self._confine, self._exceeds = request, memoryview(data), confine, exceeds
        self._killed = ""  # why: timed_out, flooded, memory, cancelled
        self._fault = b""
        self._output = {"stdout": bytearray(), "stderr": bytearray()}
        self._num_seen = 0
        self._truncated = False
        self._status: int | None = None
        self._pipes: dict[str, int] = {}

    def run(self) -> tuple[dict[str, Any], bytes]:
        """The result and the output."""
        awake = _wake_on_child()
        signal.signal(signal.SIGTERM, self._give_up)
        began = time.monotonic()
        self._start()
        while self._status is None and not self._killed:
            left = began + self._request["timeout_s"] - time.monotonic()
            if left <= 0:
                self._killed = "timed_out"
            elif self._exceeds(self._pid):
                self._killed = "memory"
            else:
                self._step(awake, min(left, 0.1))
        wall_s = time.monotonic() - began
        self._end_all()
        for name in ("stdout", "stderr", "fault"):
            while name in self._pipes and self._read(name):
                pass
        return self._result(wall_s), bytes(self._output["stdout"] + self._output["stderr"])

    def _give_up(self, *_: object) -> None:
        self._killed = self._killed or "cancelled"

    def _start(self) -> None:
        theirs = {}
        for name in ("stdin", "stdout", "stderr", "fault"):
            reader, writer = os.pipe()
            self._pipes[name], theirs[name] = (writer, reader) if name == "stdin" else (reader, writer)
            os.set_blocking(self._pipes[name], False)
        self._pid = os.fork()
        if self._pid == 0:
            _become(self._request, theirs, self._confine)
        for fd in theirs.values():
            os.close(fd)

    def _step(self, awake: int, timeout_s: float) -> None:
        names = {fd: name for name, fd in self._pipes.items() if name != "stdin"}
        writable = [self._pipes["stdin"]] if "stdin" in self._pipes else []
        readable, writable, _ = select.select([0, awake, *names], writable, [], timeout_s)
        if writable:
            self._feed()
        for fd in readable:
            if fd in names:
                self._read(names[fd])
            elif fd == awake:
                os.read(awake, _CHUNK)
            else:
                self._killed = "cancelled"
        self._reap()

    def _feed(self) -> None:
        try:
            self._input = self._input[os.write(self._pipes["stdin"], self._input[:_CHUNK]) if self._input else 0 :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._input = memoryview(b"")
        if not self._input:
            os.close(self._pipes.pop("stdin"))

    def _read(self, name: str) -> bool:
        try:
            chunk = os.read(self._pipes[name], _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            os.close(self._pipes.pop(name))
        elif name == "fault":
            self._fault += chunk
        else:
            self._keep(name, chunk)
        return bool(chunk)

    def _keep(self, name: str, chunk: bytes) -> None:
        most = self._request["max_output"]
        room = most - len(self._output[name])
        self._output[name] += chunk[:room]
        self._truncated = self._truncated or len(chunk) > room
        self._num_seen += len(chunk)
        if self._num_seen > _FLOOD_FACTOR * (most + _CHUNK) and self._status is None:
            self._killed = self._killed or "flooded"

    def _reap(self) -> bool:
        """Collect what has ended; whether there are children left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            return False

    def _end_all(self) -> None:
        while self._reap():
            for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped cannot fork away
                if self._request["own_pids"]:
                    _ignore_missing(os.kill, -1, number)
                else:
                    for pid, parent in _descendants(os.getpid()):
                        _signal_child(pid, parent, number)
            time.sleep(0.001)

    def _result(self, wall_s: float) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = _ending(self._status) if self._status is not None and not self._killed else -signal.SIGKILL
        if self._fault and not self._killed:
            number, said = json.loads(self._fault)
            self._output["stderr"] = bytearray(said.encode("utf-8", "replace"))
            ended = _UNKNOWN_COMMAND if number == errno.ENOENT else _UNUSABLE_COMMAND
        return {
            "exit_code": ended if ended >= 0 else None,
            "signal": -ended if ended < 0 and self._killed != "timed_out" else None,
            "num_stdout": len(self._output["stdout"]),
            "truncated": self._truncated,
            "timed_out": self._killed == "timed_out",
            "oom_killed": self._killed == "memory",
            "wall_s": wall_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_memory_bytes": used.ru_maxrss * 1024,
        }


def _become(request: Request, pipes: dict[str, int], confine: Callable[[], None]) -> None:
    """In the child: give up what it must not have, then become the command; does not return."""
    argv = request["argv"]
    try:
        os.setsid()
        for target, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(pipes[name], target)
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2:
                _ignore_closed(os.set_inheritable, fd, False)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _drop_rights(request["user"])
        os.chdir(request["cwd"])
        _limit(request["rlimits"])
        confine()
        _execute(argv, request["env"])
    except (OSError, ValueError) as error:
        reason = getattr(error, "errno", None) or errno.EINVAL
        # A folder that does not exist is no missing command.
        reason = errno.EINVAL if reason == errno.ENOENT and getattr(error, "filename", "") == request["cwd"] else reason
        os.write(pipes["fault"], json.dumps([reason, f"{argv[0][:200]}: {error}"[:4000] + "\n"]).encode())
    finally:
        os._exit(_UNUSABLE_COMMAND)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    # By hand: Python's own search imports a module, which may be out of reach by now.
    words = [os.fsencode(word) for word in argv]
    folders = [""] if "/" in argv[0] else [folder + "/" for folder in env.get("PATH", "").split(":")]
    refused: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        try:
            os.execve(folder + argv[0], words, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.EACCES:
                raise
            refused = error
    raise refused


def _drop_rights(user: list[int] | None) -> None:
    if user:
        for capability in range(64):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "Privileges cannot be given up here")


def _limit(rlimits: dict[str, int]) -> None:
    for name, value in rlimits.items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _become_first_process() -> None:
    """Go on as PID 1 of a process namespace, whose every process ends with it."""
    if _libc.unshare(_CLONE_NEWPID):
        raise OSError(ctypes.get_errno(), "No process namespace can be made here")
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)


def _descendants(root: int) -> list[tuple[int, int]]:
    """(pid, parent) of every process below `root`, parents first."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))):
            below.setdefault(parent, []).append(int(name))
    found = [(pid, root) for pid in below.get(root, [])]
    for pid, _ in found:  # grows while it is walked
        found += [(child, pid) for child in below.get(pid, [])]
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _signal_child(pid: int, parent: int, number: int) -> None:
    """Signal `pid` unless the number belongs to somebody else by now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # not offered here
        _ignore_missing(os.kill, pid, number)
        return
    if _parent(pid) in (parent, os.getpid()):
        _ignore_missing(signal.pidfd_send_signal, fd, number)
    os.close(fd)


def _ignore_missing(send: Callable[..., object], *arguments: int) -> None:
    try:
        send(*arguments)
    except (ProcessLookupError, PermissionError):
        return


def _ignore_closed(change: Callable[..., object], *arguments: int) -> None:
    try:
        change(*arguments)
    except OSError:
        return  # it was the descriptor of the listing itself


def _ending(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _exactly(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, min(1 << 20, size - len(data)))
        if not chunk:
            os._exit(1)  # whoever asked is gone
        data += chunk
    return bytes(data)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
