"""PID 1 of a session: runs one shell command after the other and reports what the kernel says of each.

    Assay --frame--> PID 1 --script--> shell that was started ahead --exit status (wait4), output (pipes)--> frame

It runs inside the sandbox, started with the number of a socket only it holds. The shell of a command is a process of
its own, so its exit status comes from the kernel and a command cannot forge it. Directory, variables, functions and
options go from one shell to the next as text that each shell writes on its way out; background jobs stay, as children
of PID 1. Standard library only, no imports of ours: the file travels as text.

A frame is four bytes of length, that much JSON, and as many raw bytes as the JSON's `size` says.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

Header = dict[str, Any]
Frame = tuple[Header, bytes]

CHUNK = 65536
MAX_STATE = 1 << 20
FLOOD_FACTOR = 16
KILL_S = 2.0
BASH, SHELL = "/bin/bash", "/bin/sh"
Ending = tuple[int, resource.struct_rusage]

ENDED: dict[int, Ending] = {}  # by process: wait status and usage of children, until somebody asks
MAX_ENDED = 1000
PYTHONS_OWN = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]  # what Python set is not the shell's
LEFT_OPEN: list[int] = []  # pipes of earlier commands whose background jobs still hold them
# Descriptors of a shell: 7 the command, 8 the state it begins with, 9 the state it leaves.
BASH_PROGRAM = """
. /dev/fd/8 2>/dev/null; exec 8<&-
trap '{ set +xv; declare -p; declare -f; alias -p; shopt -p; shopt -po
printf "cd %q\\n" "$PWD"; } >&9 2>/dev/null' EXIT
__command=$(</dev/fd/7); exec 7<&-
eval "unset __command; $__command"
"""
SHELL_PROGRAM = """
. /dev/fd/8 2>/dev/null; exec 8<&-
trap '{ export -p; printf "cd '"'%s'"'\\n" "$PWD"; } >&9 2>/dev/null' EXIT
__command=$(cat /dev/fd/7); exec 7<&-
eval "unset __command; $__command"
"""


def main(control: socket.socket, work_dir: str) -> None:
    """Serve commands until the other side closes, or until it has to give up: then everything ends with PID 1."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # not dumpable: no other process may look into this one
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what PID 1 does not handle, nobody inside can send it
    control.setblocking(True)
    control.set_inheritable(False)
    while (fd := os.open(os.devnull, os.O_RDONLY)) < 10:
        pass  # the descriptors that shells get are never this process's own
    os.close(fd)
    waker, state, shell = wake_on_child(), b"", Shell()
    send(control, {"ready": os.path.basename(shell.path)})
    while (order := await_order(control)) is not None:
        with contextlib.suppress(OSError):
            os.chdir(work_dir)
        shell = shell if shell.waits() else Shell()
        shell.begin(*order, state)
        following = Shell()  # starts up while the command runs
        result, output = shell.finish(order[0], control, waker, spared=following.pid)
        send(control, result, output)
        state, shell = shell.state, following


def await_order(control: socket.socket) -> Frame | None:
    """The next command; what background jobs print meanwhile is read and dropped, or they would stall."""
    while control.fileno() not in (ready := select.select([control.fileno(), *LEFT_OPEN], [], [])[0]):
        drop(ready)
    return receive(control)


def drop(readers: list[int]) -> None:
    for fd in readers:
        try:
            ended = not os.read(fd, CHUNK)
        except BlockingIOError:
            continue
        if ended:
            LEFT_OPEN.remove(fd)
            os.close(fd)


class Shell:
    """A shell that waits for a state and one command."""

    def __init__(self) -> None:
        self.path = BASH if os.path.exists(BASH) else SHELL
        self.pid = -1
        self.before: dict[int, int] = {}
        self.fds: dict[str, int] = {}
        self.unsent: dict[str, memoryview] = {}
        self.failure = ""
        try:
            self.start()
        except OSError as error:
            # Background jobs may have used up what there is; the next command is told, and may end them.
            self.failure = f"No shell could be started: {error.strerror}.\n"

    def start(self) -> None:
        actions, theirs = [], []
        try:
            for name, target in (("stdin", 0), ("stdout", 1), ("stderr", 2), ("command", 7), ("state", 8), ("left", 9)):
                reader, writer = os.pipe()
                mine, yours = (reader, writer) if name in ("stdout", "stderr", "left") else (writer, reader)
                self.fds[name] = mine
                theirs.append(yours)
                actions.append((os.POSIX_SPAWN_DUP2, yours, target))
                os.set_blocking(mine, False)
            words = (
                ["bash", "--noprofile", "--norc", "-c", BASH_PROGRAM]
                if self.path == BASH
                else ["sh", "-c", SHELL_PROGRAM]
            )
            self.pid = os.posix_spawn(
                self.path, words, os.environ, file_actions=actions, setsid=True, setsigdef=PYTHONS_OWN
            )
        finally:
            for fd in theirs:
                os.close(fd)

    def waits(self) -> bool:
        """Whether it is there for a command: it may have been killed since it was started."""
        reap()
        return self.pid >= 0 and ENDED.pop(self.pid, None) is None

    def begin(self, header: Header, stdin: bytes, state: bytes) -> None:
        """Give it the state of the session and its command."""
        self.state, self.began, self.before = state, time.monotonic(), processes()
        if self.pid < 0:
            return
        limit(self.pid, header["cpu_s"])
        script = header["script"].encode("utf-8", "replace")
        self.unsent = {"state": memoryview(state), "command": memoryview(script), "stdin": memoryview(stdin)}
        self.push()

    def push(self) -> None:
        """Write what the shell still has to read, as far as there is room."""
        for name, view in list(self.unsent.items()):
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                while view:
                    view = view[os.write(self.fds[name], view) :]
            self.unsent[name] = view
            if not view:
                del self.unsent[name]
                os.close(self.fds.pop(name))

    def finish(self, header: Header, control: socket.socket, waker: int, spared: int) -> Frame:
        """See the command to its end, its time-out or a flood; the result's header and its output."""
        if self.pid < 0:
            return {**ended(126, self.began), "num_stdout": 0, "size": len(self.failure)}, self.failure.encode()
        output, seen = {"stdout": bytearray(), "stderr": bytearray(), "left": bytearray()}, dict.fromkeys(self.fds, 0)
        caps = {"stdout": header["max_output"], "stderr": header["max_output"], "left": MAX_STATE}
        deadline, killed, status = self.began + header["timeout_s"], "", None
        before = {pid for pid in self.before if pid != self.pid} | {spared}
        while status is None:
            self.wait(control, waker, deadline)
            self.pull(output, seen, caps)
            reap()
            status = ENDED.pop(self.pid, None)
            if status is None and (time.monotonic() >= deadline or sum(seen.values()) > flood(header)):
                killed = "timed_out" if time.monotonic() >= deadline else "flooded"
                kill_since(before)
                deadline = time.monotonic() + KILL_S  # the kernel may need a moment
        self.pull(output, seen, caps)
        if output["left"] and len(output["left"]) < MAX_STATE and not killed:
            self.state = bytes(output["left"])
        for name, fd in self.fds.items():
            if name in output and name != "left":
                LEFT_OPEN.append(fd)  # a background job has it, too, and may go on printing
            else:
                os.close(fd)
        result = self.result(status, killed, seen, caps)
        data = bytes(output["stdout"] + output["stderr"])
        return {**result, "num_stdout": len(output["stdout"]), "size": len(data)}, data

    def wait(self, control: socket.socket, waker: int, deadline: float) -> None:
        readers = [self.fds[name] for name in ("stdout", "stderr", "left") if name in self.fds]
        writers = [self.fds[name] for name in self.unsent]
        left = max(0.0, deadline - time.monotonic())
        ready, writable, _ = select.select([*readers, waker, control.fileno(), *LEFT_OPEN], writers, [], left)
        drop([fd for fd in ready if fd in LEFT_OPEN])
        if waker in ready:
            os.read(waker, CHUNK)
        if control.fileno() in ready and not control.recv(1, socket.MSG_PEEK):
            sys.exit()  # nobody waits any more
        if writable:
            self.push()

    def pull(self, output: dict[str, bytearray], seen: dict[str, int], caps: dict[str, int]) -> None:
        for name, kept in output.items():
            if name not in self.fds:
                continue
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(self.fds[name], CHUNK):
                    kept += chunk[: caps[name] - len(kept)]
                    seen[name] += len(chunk)
                    if seen[name] > 4 * CHUNK + caps[name]:
                        return  # a flood: look at the time before going on
                os.close(self.fds.pop(name))

    def result(self, status: Ending, killed: str, seen: dict[str, int], caps: dict[str, int]) -> Header:
        code, usage = os.waitstatus_to_exitcode(status[0]), status[1]
        return {
            **ended(code if killed != "timed_out" else None, self.began),
            "timed_out": killed == "timed_out",
            "truncated": any(seen.get(name, 0) > caps[name] for name in ("stdout", "stderr")),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_memory_bytes": usage.ru_maxrss * 1024,
        }


def reap() -> None:
    """Note how children ended; most are orphans, which nobody asks about."""
    with contextlib.suppress(ChildProcessError):
        while (ending := os.wait4(-1, os.WNOHANG))[0] != 0:
            ENDED[ending[0]] = ending[1:]
    for pid in list(ENDED)[:-MAX_ENDED]:
        del ENDED[pid]


def ended(code: int | None, began: float) -> Header:
    """`code`: an exit code, minus a signal, or None. Above 128 it is the shell telling of a signal."""
    if code is not None and 128 < code <= 128 + signal.NSIG:
        code = 128 - code
    return {
        "exit_code": code if code is None or code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "timed_out": False,
        "truncated": False,
        "wall_s": time.monotonic() - began,
        "cpu_s": 0.0,
        "peak_memory_bytes": None,
    }


def limit(pid: int, cpu_s: int) -> None:
    """Processor time is counted per process and the shell has used next to none."""
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_CPU, (cpu_s, cpu_s))


def flood(header: Header) -> int:
    return FLOOD_FACTOR * (header["max_output"] + CHUNK) + MAX_STATE


def processes() -> dict[int, int]:
    """Every process but this one, as {pid: parent}."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                found[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
    return found


def kill_since(before: set[int]) -> None:
    """Kill what a command started: every process that is neither from before nor a descendant of one of those."""
    end = time.monotonic() + KILL_S
    while time.monotonic() < end:
        parents = processes()
        new = [pid for pid in parents if not descends(pid, parents, before)]
        alive = [pid for pid in new if not zombie(pid)]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    sys.exit("what a command started could not be ended")


def descends(pid: int, parents: dict[int, int], before: set[int]) -> bool:
    while pid in parents:
        if pid in before:
            return True
        pid = parents[pid]
    return False


def zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def send(control: socket.socket, header: Header, payload: bytes = b"") -> None:
    data = json.dumps(header).encode()
    control.sendall(len(data).to_bytes(4, "big") + data + payload)


def receive(control: socket.socket) -> Frame | None:
    """(header, payload), or None when the other side has closed."""
    length = exactly(control, 4)
    data = None if length is None else exactly(control, int.from_bytes(length, "big"))
    if data is None:
        return None
    header = json.loads(data)
    payload = exactly(control, header["size"])
    return None if payload is None else (header, payload)


def exactly(control: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = control.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), os.getcwd())
