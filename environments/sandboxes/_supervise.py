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
import itertools
import json
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from environments.sandboxes import _cgroups, _kernel, _seccomp, _wire
from environments.sandboxes._boxes import Files, Place
from environments.sandboxes._cell import Box, Cell
from environments.sandboxes._jail import Jail
from environments.sandboxes._launch import reserve_descriptors
from environments.sandboxes._request import Request
from environments.sandboxes._stock import Stock
from environments.sandboxes._users import of_layers, throwaway

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
_REFILL_S = 0.003  # after the last request, so that making stock delays nobody
_IDLE_S = 30.0  # a kind of sandbox that nobody asked for so long is no longer kept ready
_LOOK_S = 0.1  # between looks at the memory of running commands, where no cgroup counts it
_SESSION_PROGRAM = Path(__file__).with_name("_session_program.py").read_text()


class Supervisor:
    """Serves requests on `control` until it closes. Raises OSError when this machine does not let it isolate."""

    def __init__(
        self, control: socket.socket, options: dict[str, Any], cgroups: _cgroups.Cgroups | None, first_uid: int
    ) -> None:
        self.as_root = os.getuid() == 0
        self.jail = Jail(options, as_root=self.as_root)
        self.filter = self.jail.keep("filter", _seccomp.program(os.uname().machine))
        self.cgroups, self._next_uid = cgroups, first_uid
        _allow_many_descriptors()
        reserve_descriptors()
        self._control, self._slots = control, int(options["max_concurrency"])
        self._selector = selectors.DefaultSelector()
        self._boxes: dict[str, Box] = {}
        self._waiting: collections.deque[tuple[Box, Request]] = collections.deque()
        self._cells: set[Cell] = set()
        self._numbers = itertools.count()
        self._stock = Stock[Place, Box](int(options["num_ready"]), _IDLE_S, time.monotonic)
        self._refill_at = float("inf")
        self._stop_at = float("inf")
        self._next_look = float("inf") if cgroups else 0.0

    def greeting(self) -> dict[str, list[str]]:
        """Limits that hold here and what can be done. Without cgroups memory is limited per process, watched in sum."""
        memory = ["memory_bytes"] if self.cgroups else ["memory_bytes_per_process", "memory_bytes_watched"]
        can = ["session", "mounts", "own_pids", *(["cgroup"] if self.cgroups else [])]
        if not self.jail.overlays and (not self.as_root or self.cgroups or _may_limit_others()):
            can += ["layers", "snapshot", "fork", "image"]
        return {"limits": sorted([*_LIMITS, *memory]), "capabilities": sorted(can)}

    def serve(self) -> None:
        """Until the control socket closes and the last process is gone."""
        self.watch(self._control.fileno(), self._on_request)
        while self._cells or self._stop_at == float("inf"):
            self._turn()
            if time.monotonic() > self._stop_at:
                break

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def finished(self, cell: Cell) -> None:
        self._cells.discard(cell)
        box = cell.box
        box.cells.discard(cell)
        box.sessions = {name: other for name, other in box.sessions.items() if other is not cell}
        if box.ready is cell:
            box.ready = None
            self._drop_if_spare(box)
        self._go_on(box)
        self._start_next()

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = time.monotonic()
        until = min([cell.deadline for cell in self._cells], default=float("inf"))
        until = min(until, self._stop_at, self._refill_at, self._next_look if self._cells else float("inf"))
        timeout = None if until == float("inf") else max(0.0, until - now)
        for key, _ in self._selector.select(timeout):
            # An earlier event of this turn may have ended what this one belongs to.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now = time.monotonic()
        for cell in [cell for cell in self._cells if cell.deadline <= now]:
            cell.kill("timed_out")
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            for cell in self._cells:
                cell.check_memory()
        if now >= self._refill_at:
            self._refill(now)

    def _refill(self, now: float) -> None:
        """Make one sandbox for the stock, or let go of what nobody wants any more; look again when it may be due."""
        for box in self._stock.forgotten():
            self._leave(box)
        place = self._stock.lacking()
        self._refill_at = now + (_REFILL_S if place else _IDLE_S / 4) if len(self._stock) or place else float("inf")
        if place is None or self._stop_at != float("inf"):
            return
        try:
            box = self._make_box(place, None)
            self._launch_ready(box)
        except OSError:
            self._refill_at = now + _IDLE_S  # whoever asks next is told what is wrong
            return
        self._stock.add(place, box)

    def _launch_ready(self, box: Box) -> None:
        cell = Cell(self, box)
        try:
            cell.launch()
        except OSError:
            self._leave(box)
            raise
        box.ready = cell
        self._add(cell)

    def _add(self, cell: Cell) -> None:
        self._cells.add(cell)
        cell.box.cells.add(cell)

    def _drop_if_spare(self, box: Box) -> None:
        if not box.id:
            self._stock.discard(box)
            self._leave(box)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _on_request(self) -> None:
        received = _wire.receive(self._control)
        if received is None:
            self._stop()
            return
        header, _, descriptors = received
        connection = socket.socket(fileno=descriptors[0])
        try:
            getattr(self, f"_on_{header['do']}")(header, connection, *descriptors[1:])
        except OSError as error:
            self._answer(connection, {"error": str(error)})

    def _on_create(self, header: dict[str, Any], connection: socket.socket) -> None:
        place = Place.of(header)
        parent = self._boxes[header["parent"]] if header.get("parent") else None
        box = self._stock.take(place) if parent is None else None
        self._refill_at = time.monotonic() + _REFILL_S
        box = box or self._make_box(place, parent)
        box.id = header["box"]
        self._boxes[box.id] = box
        self._show(box, connection)

    def _on_exec(self, header: dict[str, Any], connection: socket.socket, stdin: int) -> None:
        box = self._box(header, connection)
        if box is None:
            os.close(stdin)
            return
        request = Request(
            connection=connection,
            argv=header["argv"],
            env=header["env"],
            cwd=header["cwd"],
            stdin=stdin,
            timeout_s=header["timeout_s"],
            max_output=header["max_output"],
        )
        self.watch(connection.fileno(), lambda: self._abandoned(box, request))
        self._waiting.append((box, request))
        self._start_next()

    def _on_session(self, header: dict[str, Any], connection: socket.socket, control: int) -> None:
        box = self._box(header, connection)
        try:
            if box is None:
                return
            python = self.jail.python(box.files.place.image)
            if python is None:
                self._answer(connection, {"error": "a session needs a python3 in the image"})
                return
            cell = Cell(self, box)
            argv = [python, "-I", "-S", "-B", "-c", _SESSION_PROGRAM]
            cell.launch_session(connection, argv, header["env"], control)
            box.sessions[header["name"]] = cell
            self._add(cell)
        finally:
            os.close(control)

    def _on_end_session(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._boxes.get(header["box"])
        if box is not None and header["name"] in box.sessions:
            box.sessions[header["name"]].kill("ended")
        self._answer(connection, {})

    def _on_snapshot(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._box(header, connection)
        if box is not None and self._at_rest(box, connection):
            self._change(box, connection, lambda: box.files.snapshot(header["name"]))

    def _on_restore(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._box(header, connection)
        if box is not None:
            self._change(box, connection, lambda: box.files.restore(header["name"]))

    def _on_usage(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._box(header, connection)
        if box is not None:
            usage = self.cgroups.usage(box.group) if self.cgroups else None
            self._answer(connection, {"num_oom_kills": usage.num_oom_kills if usage else 0})

    def _on_destroy(self, header: dict[str, Any], connection: socket.socket) -> None:
        box = self._boxes.get(header["box"])
        if box is None:
            self._answer(connection, {})
            return
        self._leave(box, lambda: self._answer(connection, {}))

    # --- boxes --------------------------------------------------------------------------------------------------------

    def _make_box(self, place: Place, parent: Box | None) -> Box:
        self._next_uid += 1
        shared = of_layers()
        if parent:
            owner = parent.files.owner
        else:
            owner = throwaway(self._next_uid) if self.as_root and not (place.layers or place.image) else shared
        count = self._count(owned=parent is None and owner != shared)
        limits, group = dict(place.limits), f"box{next(self._numbers)}"
        files = Files(group, place, self.jail, owner, parent.files if parent else None)
        try:
            if self.cgroups:
                memory = limits["memory_bytes"] + limits["disk_bytes"]
                self.cgroups.create(group, memory=memory, pids=limits["max_processes"])
        except OSError:
            files.remove()
            raise
        return Box(group=group, files=files, limits=limits, count=count)

    def _count(self, *, owned: bool) -> Literal["before", "after", "group"]:
        """How a box's processes are limited, see `Box`."""
        if owned:
            return "before"
        return "group" if self.as_root and self.cgroups else "after"

    def _box(self, header: dict[str, Any], connection: socket.socket) -> Box | None:
        """The box of a request that it can still act on; None after having answered why not."""
        box = self._boxes.get(header["box"])
        if box is None or box.leaving:
            self._answer(connection, {"error": "The sandbox is destroyed."})
            return None
        return box

    def _at_rest(self, box: Box, connection: socket.socket) -> bool:
        if any(cell.request for cell in box.cells) or any(other is box for other, _ in self._waiting):
            self._answer(connection, {"error": "a command is running; wait for it to end"})
            return False
        return True

    def _change(self, box: Box, connection: socket.socket, action: Callable[[], None]) -> None:
        """End everything in the box, then act on its files and show them anew."""

        def act() -> None:
            try:
                action()
                self._show(box, connection)
            except OSError as error:
                self._answer(connection, {"error": str(error)})
            except KeyError as error:
                self._answer(connection, {"error": f"there is no snapshot {error}"})

        self._empty(box, act)

    def _leave(self, box: Box, then: Callable[[], None] = lambda: None) -> None:
        box.leaving = True

        def remove() -> None:
            if not box.removed:
                box.removed = True
                self._boxes.pop(box.id, None)
                box.files.remove()
                if self.cgroups:
                    self.cgroups.remove(box.group)
            then()

        self._empty(box, remove)

    def _empty(self, box: Box, then: Callable[[], None]) -> None:
        """End everything in the box; `then` is called when it is gone."""
        box.when_empty.append(then)
        for other, request in list(self._waiting):
            if other is box:
                self._refuse(other, request, "The sandbox was destroyed before the command began.")
        for cell in list(box.cells):
            cell.kill("cancelled")
        self._go_on(box)

    def _go_on(self, box: Box) -> None:
        while box.when_empty and not box.cells:
            box.when_empty.pop(0)()

    def _show(self, box: Box, connection: socket.socket) -> None:
        uid, gid = box.files.owner
        with box.files.opened() as descriptors:
            self._answer(connection, {"uid": uid, "gid": gid}, descriptors)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        while self._waiting and sum(cell.request is not None for cell in self._cells) < self._slots:
            box, request = self._waiting.popleft()
            try:
                self._start(box, request)
            except OSError as error:
                self._refuse(box, request, f"Cannot start a process: {error}.")

    def _start(self, box: Box, request: Request) -> None:
        cell, box.ready = box.ready, None
        if cell is not None and not cell.run(request):
            cell.kill("unused")
            cell = None
        if cell is None:
            cell = Cell(self, box)
            cell.launch_command(request)
            self._add(cell)
        self.unwatch(request.connection.fileno())
        self.watch(request.connection.fileno(), lambda: self._abandoned(box, request, cell))
        self._refill_at = min(self._refill_at, time.monotonic())

    def _abandoned(self, box: Box, request: Request, cell: Cell | None = None) -> None:
        """Nobody waits for the result any more."""
        self.unwatch(request.connection.fileno())
        if cell is not None:
            cell.kill("cancelled")
        else:
            self._refuse(box, request, "")

    def _refuse(self, box: Box, request: Request, message: str) -> None:
        """Answer without having run."""
        with contextlib.suppress(ValueError):
            self._waiting.remove((box, request))
        self.unwatch(request.connection.fileno())
        os.close(request.stdin)
        self._answer(request.connection, {"error": message})

    def _answer(self, connection: socket.socket, header: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _wire.send(connection, header, descriptors=descriptors)
        connection.close()

    def _stop(self) -> None:
        self.unwatch(self._control.fileno())
        self._stop_at = time.monotonic() + _SHUTDOWN_S
        for box, request in list(self._waiting):
            self._refuse(box, request, "")
        for cell in list(self._cells):
            cell.kill("cancelled")


def _may_limit_others() -> bool:
    """Whether this root may set limits of another user's processes (CAP_SYS_RESOURCE, number 24)."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 24 & 1)


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
    _wire.send(control, supervisor.greeting())
    # Without this every fork copies the pages that the collector writes to.
    gc.collect()
    gc.freeze()
    supervisor.serve()
