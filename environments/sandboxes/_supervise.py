"""The supervisor: a small process of its own that starts, limits, watches and ends every sandboxed command.

    Assay --(one packet of descriptors per request)--> supervisor --fork--> bwrap --> PID 1 of the sandbox --> command

It has an empty environment and few pages, so forking is fast and leaks nothing. It is the first process of a process
namespace and its mounts are private: when it dies, the kernel ends every sandbox. When Assay ends, however it ends, the
control socket closes and the supervisor with it. One thread, one selector; a slow reader on the other side stalls
nothing, because requests and replies are memory files.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Callable

from environments.sandboxes import _cgroups, _kernel, _wire
from environments.sandboxes._supervisor import Supervisor


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
    _wire.send(control, supervisor.keeper.greeting())
    # Without this every fork copies the pages that the collector writes to.
    gc.collect()
    gc.freeze()
    supervisor.serve()
