"""The supervisor: a small process of its own that starts, limits, watches and ends every sandboxed command.

    Assay --(one packet of descriptors per request)--> supervisor --fork--> bwrap --> PID 1 of the sandbox --> command

It has an empty environment and few pages, so forking is fast and leaks nothing. It is the first process of a process
namespace and its mounts are private: when it dies, the kernel ends every sandbox. When Assay ends, however it ends, the
control socket closes and the supervisor with it. One thread, one selector; a slow reader on the other side stalls
nothing, because requests and replies are memory files.
"""

import collections
import contextlib
import gc
import json
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from environments.sandboxes import _cgroups, _kernel, _seccomp, _wire
from environments.sandboxes._jail import Jail
from environments.sandboxes._job import Box, Job

_LIMITS = (
    "cpu_s_per_process",
    "disk_bytes",
    "max_file_bytes",
    "max_open_files",
    "max_processes",
    "output",
    "wall_time",
)
_SHUTDOWN_S = 5.0
_LOOK_S = 0.1  # between looks at the memory of running commands, where no cgroup counts it
_UIDS = range(900_001, 965_536)  # nobody's: far above what distributions hand out to people and services
_SMALL_UIDS = range(61_184, 65_000)  # systemd's pool for throw-away users, for containers that map 65,536 ids


class Supervisor:
    """Serves requests on `control` until it closes. Raises OSError when this machine does not let it isolate."""

    def __init__(
        self, control: socket.socket, options: dict[str, Any], cgroups: _cgroups.Cgroups | None, first_uid: int
    ) -> None:
        self.as_root = os.getuid() == 0
        self.filter = _seccomp.program(os.uname().machine)
        self.jail = Jail(options)
        self._cgroups, self._next_uid = cgroups, first_uid
        _allow_many_descriptors()
        self._control, self._slots = control, int(options["max_concurrency"])
        self._selector = selectors.DefaultSelector()
        self._boxes: dict[str, Box] = {}
        self._leaving: dict[str, list[socket.socket]] = {}
        self._waiting: collections.deque[Job] = collections.deque()
        self._running: set[Job] = set()
        self._stop_at = float("inf")
        self._next_look = float("inf") if cgroups else 0.0

    def limits(self) -> list[str]:
        """Names of the limits that hold here. Without cgroups memory is limited per process and only watched in sum."""
        memory = ["memory_bytes"] if self._cgroups else ["memory_bytes_per_process", "memory_bytes_watched"]
        return sorted([*_LIMITS, *memory])

    def serve(self) -> None:
        """Until the control socket closes and the last process is gone."""
        self.watch(self._control.fileno(), self._on_request)
        while self._running or self._stop_at == float("inf"):
            self._turn()
            if time.monotonic() > self._stop_at:
                break

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def confine(self, box: Box, pid: int) -> None:
        """Limit a sandbox whose PID 1 waits. Raises OSError."""
        if not self.as_root:
            # Set earlier, it would count every process of the person who runs Assay.
            most = box.limits["max_processes"]
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))
        if self._cgroups:
            self._cgroups.add(box.id, pid)

    def finished(self, job: Job) -> None:
        self._running.discard(job)
        self._remove_if_left(job.box)
        self._start_next()

    def _turn(self) -> None:
        now = time.monotonic()
        until = min([job.deadline for job in self._running], default=float("inf"))
        until = min(until, self._stop_at, self._next_look if self._running else float("inf"))
        timeout = None if until == float("inf") else max(0.0, until - now)
        for key, _ in self._selector.select(timeout):
            # An earlier event of this turn may have ended what this one belongs to.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now = time.monotonic()
        for job in [job for job in self._running if job.deadline <= now]:
            job.kill("timed_out")
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            for job in self._running:
                job.check_memory()

    def _on_request(self) -> None:
        received = _wire.receive(self._control)
        if received is None:
            self._stop()
            return
        header, _, descriptors = received
        connection = socket.socket(fileno=descriptors[0])
        actions: dict[str, Callable[..., None]] = {
            "create": self._create,
            "exec": self._exec,
            "destroy": self._destroy,
        }
        try:
            actions[header["do"]](header, connection, *descriptors[1:])
        except OSError as error:
            self._answer(connection, {"error": str(error)})

    def _create(self, header: dict[str, Any], connection: socket.socket) -> None:
        self._next_uid += 1
        uid, gid = _throwaway(self._next_uid) if self.as_root else (os.getuid(), os.getgid())
        box = Box(header["box"], uid, gid, header["limits"])
        with contextlib.ExitStack() as on_failure:
            work_dir = self.jail.make_box(box.id, uid, gid, box.limits["disk_bytes"])
            on_failure.callback(self.jail.remove_box, box.id)
            on_failure.callback(os.close, work_dir)
            if self._cgroups:
                memory = box.limits["memory_bytes"] + box.limits["disk_bytes"]
                self._cgroups.create(box.id, memory=memory, pids=box.limits["max_processes"])
            on_failure.pop_all()
        self._boxes[box.id] = box
        self._answer(connection, {"uid": uid, "gid": gid}, (work_dir,))
        os.close(work_dir)

    def _exec(self, header: dict[str, Any], connection: socket.socket, stdin: int) -> None:
        box = self._boxes.get(header["box"])
        if box is None or box.id in self._leaving:
            os.close(stdin)
            self._answer(connection, {"error": "The sandbox is destroyed."})
            return
        job = Job(self, box, connection, header, stdin)
        box.jobs.add(job)
        self.watch(connection.fileno(), lambda: self._abandoned(job))
        self._waiting.append(job)
        self._start_next()

    def _destroy(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._boxes.get(header["box"])
        if box is None:
            self._answer(connection, {})
            return
        self._leaving.setdefault(box.id, []).append(connection)
        for job in list(box.jobs):
            self._end(job, "The sandbox was destroyed before the command began.")
        self._remove_if_left(box)

    def _abandoned(self, job: Job) -> None:
        self.unwatch(job.connection.fileno())
        self._end(job, "")
        self._remove_if_left(job.box)

    def _end(self, job: Job, message: str) -> None:
        if job in self._running:
            job.kill("cancelled")
        elif job in self._waiting:
            self._waiting.remove(job)
            job.refuse(message)

    def _remove_if_left(self, box: Box) -> None:
        if box.id not in self._leaving or box.jobs:
            return
        del self._boxes[box.id]
        self.jail.remove_box(box.id)
        if self._cgroups:
            self._cgroups.remove(box.id)
        for connection in self._leaving.pop(box.id):
            self._answer(connection, {})

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < self._slots:
            job = self._waiting.popleft()
            try:
                job.start()
            except OSError as error:
                job.refuse(f"Cannot start a process: {error}.")
            else:
                self._running.add(job)

    def _answer(self, connection: socket.socket, header: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _wire.send(connection, header, descriptors=descriptors)
        connection.close()

    def _stop(self) -> None:
        self.unwatch(self._control.fileno())
        self._stop_at = time.monotonic() + _SHUTDOWN_S
        for job in [*self._waiting, *self._running]:
            self._end(job, "")


def _throwaway(number: int) -> tuple[int, int]:
    """A uid and gid that no person has; the next number gives other ones."""
    uids = _UIDS if _is_mapped(_UIDS[-1]) else _SMALL_UIDS
    uid = uids[number % len(uids)]
    return uid, uid


def _is_mapped(uid: int) -> bool:
    """Whether this process could become `uid`: in a container with few user ids it could not."""
    with open("/proc/self/uid_map") as file:
        return any(int(first) <= uid < int(first) + int(count) for first, _, count in map(str.split, file))


def _allow_many_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    """Entry of the process: `argv[1]` is the control socket's descriptor, `argv[2]` the options as JSON."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.umask(0o022)
    parent, cgroups = os.pidfd_open(os.getpid()), _cgroups.delegated()
    # Supervisors on one machine start far apart, so their sandboxes hardly ever share a user.
    first_uid = os.getpid() * 257
    child = _fork_into_namespaces(control)
    if child == 0:
        _live(control, parent, lambda: Supervisor(control, json.loads(sys.argv[2]), cgroups, first_uid))
        return
    control.close()
    if child is not None:
        os.waitpid(child, 0)
    if cgroups:
        cgroups.close()


def _fork_into_namespaces(control: socket.socket) -> int | None:
    """As `os.fork`, the child being first in a process namespace; None, having said why, when that is not allowed."""
    try:
        _kernel.enter_namespaces(as_root=os.getuid() == 0)
        return os.fork()
    except OSError as error:
        _wire.send(control, {"error": str(error)})
        return None


def _live(control: socket.socket, parent: int, build: Callable[[], Supervisor]) -> None:
    try:
        _kernel.settle_as_first_process(parent)
        supervisor = build()
    except OSError as error:
        _wire.send(control, {"error": str(error)})
        return
    _wire.send(control, {"limits": supervisor.limits()})
    # Without this every fork copies the pages that the collector writes to.
    gc.collect()
    gc.freeze()
    supervisor.serve()
