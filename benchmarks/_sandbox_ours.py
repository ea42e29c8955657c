"""Assay's side of `sandbox`: each function measures one thing once or several times, in seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from assay.errors import SandboxError
from environments.pool import Pool
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec, require

SESSION = ("true", "cd /tmp", "echo hello")
NUM_FOLDERS, NUM_FILES = 200, 100  # 20,000 files
NUM_CHANGED = 20
PAUSE_S = 0.05  # what an agent thinks takes longer
_CHANGE = f"""for i in $(seq {NUM_CHANGED}); do
echo edited >> folder_$i/file_$i.txt && echo new > folder_$i/new.txt || exit 1; done"""

Series = dict[str, list[float]]


@contextmanager
def stopwatch(seconds: list[float]) -> Iterator[None]:
    """Appends what its block took."""
    began = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - began)


async def lifecycle(backend: Backend, argv: Sequence[str]) -> None:
    """One sandbox from nothing to nothing. Raises SandboxError unless the command succeeds."""
    sandbox = await backend.create(SandboxSpec())
    try:
        await succeed(sandbox, argv)
    finally:
        await sandbox.destroy()


async def succeed(sandbox: Sandbox, command: Sequence[str] | str, session: str | None = None) -> None:
    """Run a command. Raises SandboxError unless it succeeds."""
    # Not passed when None: a backend may lack it.
    chosen: dict[str, Any] = {"session": session} if session else {}
    result = await sandbox.exec(command, **chosen)
    if result.exit_code != 0:
        raise SandboxError(f"{command!r} ended with {result.exit_code}, signal {result.signal}: {result.stderr}")


async def repeated(times: int, act: Callable[[], Awaitable[None]]) -> list[float]:
    seconds: list[float] = []
    for _ in range(times):
        with stopwatch(seconds):
            await act()
    return seconds


async def session(backend: Backend, times: int) -> Series:
    """A session's first command with the sandbox's creation, then each further command."""
    series: Series = {"session first": [], "session": []}
    with stopwatch(series["session first"]):
        sandbox = await backend.create(SandboxSpec())
        require(backend.id, sandbox.capabilities, {"session"})
        await succeed(sandbox, "true", "main")
    for command in islice(cycle(SESSION), times):
        with stopwatch(series["session"]):
            await succeed(sandbox, command, "main")
    await sandbox.destroy()
    return series


async def takes(backend: Backend, times: int) -> Series:
    """Creating when there was time to have one ready."""
    seconds: list[float] = []
    for _ in range(times):
        await asyncio.sleep(PAUSE_S)
        with stopwatch(seconds):
            sandbox = await backend.create(SandboxSpec())
        await succeed(sandbox, ["true"])
        await sandbox.destroy()
    return {"take": seconds}


async def pool_takes(backend: Backend, times: int) -> Series:
    """The same from a pool over the backend."""
    pool = Pool(backend)
    try:
        return {"pool": (await takes(pool, times))["take"]}
    finally:
        await pool.drain()


def make_project(folder: Path) -> None:
    """20,000 small files."""
    for i in range(NUM_FOLDERS):
        part = folder / f"folder_{i}"
        part.mkdir(parents=True)
        for j in range(NUM_FILES):
            (part / f"file_{j}.txt").write_text(f"line {i} {j}\n" * 8)


async def reset(backend: Backend, project: Path, times: int) -> Series:
    """Back to the project after 20 edits and 20 new files. Raises SandboxError unless that is what it is."""
    series: Series = {"reset": []}
    sandbox = await _with_project(backend, project)
    for _ in range(times):
        await succeed(sandbox, _CHANGE)
        with stopwatch(series["reset"]):
            await sandbox.restore()
    await succeed(sandbox, "test ! -e folder_1/new.txt && ! grep -q edited folder_1/file_1.txt")
    await sandbox.destroy()
    return series


async def snapshot(backend: Backend, project: Path, times: int) -> Series:
    """Freeze the changed project and return to it after a further change."""
    series: Series = {"snapshot": []}
    for _ in range(times):
        sandbox = await _with_project(backend, project)
        await succeed(sandbox, _CHANGE)
        with stopwatch(series["snapshot"]):
            frozen = await sandbox.snapshot()
            await sandbox.restore(frozen)
        await succeed(sandbox, "test -e folder_1/new.txt && grep -q edited folder_1/file_1.txt")
        await sandbox.destroy()
    return series


async def _with_project(backend: Backend, project: Path) -> Sandbox:
    sandbox = await backend.create(SandboxSpec(layers=(str(project),)))
    require(backend.id, sandbox.capabilities, {"layers", "snapshot"})
    return sandbox
