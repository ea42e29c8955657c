"""What the sandbox tests share: code that attacks only from inside, what backends promise, a look at processes."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec

MIB = 1 << 20

# Attack code refuses to run anywhere but inside a sandbox: no host is called so, no user of a host is confined so.
GUARD = """
import ctypes, json, os, socket
def confined():
    prctl = ctypes.CDLL(None).prctl
    return (prctl(21, 0, 0, 0, 0), prctl(39, 0, 0, 0, 0)) == (2, 1)  # a system-call filter, no new privileges
assert os.getcwd().endswith("/workspace")
assert socket.gethostname() == "sandbox" or (os.getuid() != 0 and confined())
"""

Attack = Callable[..., Awaitable[Any]]

# What a backend keeps without a word in its report. A capability of the contract or a limit is promised by the report.
#   own_root     a root of its own: no file of this machine but system files, by names given in the spec
#   bare_python  a Python without third-party packages
#   loopback     programs inside may talk to each other over TCP
#   filtered     the system-call filter of `_seccomp`, on this machine's kernel
#   unseen       no command sees processes of another, not even of its own sandbox
#   local        processes are this machine's, where a test can look for them
PROMISES = {
    "bubblewrap": {"own_root", "own_pids", "bare_python", "loopback", "filtered", "unseen", "local"},
    "gvisor": {"own_root", "own_pids", "own_kernel", "image", "mounts", "bare_python", "loopback"},
    "container": {"own_root", "own_pids", "cgroup", "image_name", "network", "loopback"},
    "kubernetes": {"own_root", "own_pids", "cgroup", "image_name", "network", "loopback"},
    "landlock": {"filtered", "local"},
}


def needs(*promises: str) -> pytest.MarkDecorator:
    """Marks a test for backends that promise all of these: names of PROMISES, capabilities, limits."""
    return pytest.mark.needs(*promises)


async def made(backend: Backend, **limits: int) -> Sandbox:
    """A sandbox with these limits."""
    return await backend.create(SandboxSpec(limits=replace(Limits(), **limits)))


async def run_attack(sandbox: Sandbox, code: str, **options: Any) -> Any:
    """Run Python inside; the code assigns `answer`, which is returned."""
    program = GUARD + code + "\nprint(json.dumps(answer))"
    result = await sandbox.exec(["python3", "-I", "-S", "-c", program], **options)
    assert result.exit_code == 0, result
    return json.loads(result.stdout)


# The marker comes by standard input, or the program that looks would find itself.
LOOK = """
import os, sys
marker, found = sys.stdin.buffer.read(), []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        if marker in open(f"/proc/{name}/cmdline", "rb").read(): found.append(name)
    except OSError: pass
print(*found)
"""


async def processes_of(sandbox: Sandbox, marker: str) -> list[int]:
    """Processes with `marker` on their command line, seen from this machine, or from inside where they are not its."""
    if "local" in promises_of(sandbox):
        return processes_with(marker)
    result = await sandbox.exec(["python3", "-I", "-S", "-c", LOOK], stdin=marker.encode())
    return [int(pid) for pid in result.stdout.split()]


def promises_of(plugin: object) -> set[str]:
    """PROMISES of the backend that `plugin`, a backend or sandbox, belongs to."""
    return PROMISES[type(plugin).__module__.rpartition(".")[2].lstrip("_")]


async def eventually(look: Callable[[], Awaitable[Any]], timeout_s: float = 20.0) -> Any:
    """The first true value that `look` finds; fails the test when there is none in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := await look():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


def processes_with(marker: str) -> list[int]:
    """Processes of this machine, zombies aside, with `marker` on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """The first true value of `condition`; fails the test when there is none in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("waited in vain")


async def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> None:
    """Wait in this event loop for `condition`; fails the test when it does not come true in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
