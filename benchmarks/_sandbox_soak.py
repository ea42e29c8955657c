"""What sandboxes leave behind and how many a machine makes: counts over this process and all below it."""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks._sandbox_ours import lifecycle, succeed
from environments.sandboxes.base import Backend, SandboxSpec, require

COUNTED = ("processes", "mounts", "cgroups", "temporary files", "descriptors")
_CGROUPS = Path("/sys/fs/cgroup")
_SETTLE_S = 1.0


async def soak(backend: Backend, times: int) -> dict[str, int]:
    """What `times` lifecycles in a row added, of all that is `COUNTED`."""
    for _ in range(20):
        await lifecycle(backend, ["true"])
    before = await census()
    for _ in range(times):
        await lifecycle(backend, ["true"])
    after = await census()
    return {name: after[name] - before[name] for name in COUNTED}


async def sustained(backend: Backend, seconds: float, concurrency: int) -> float:
    """Lifecycles per second."""
    began, count = time.monotonic(), 0

    async def keep_on() -> None:
        nonlocal count
        while time.monotonic() < began + seconds:
            await lifecycle(backend, ["true"])
            count += 1

    await asyncio.gather(*(keep_on() for _ in range(concurrency)))
    return count / (time.monotonic() - began)


async def idle_memory(backend: Backend) -> dict[str, list[float]]:
    """MiB that a sandbox with an idle session adds, shared pages by their share."""
    sandbox = await backend.create(SandboxSpec())
    require(backend.id, sandbox.capabilities, {"session"})
    before = tree()
    await succeed(sandbox, "true", "main")
    await asyncio.sleep(_SETTLE_S)
    added = [process.memory_full_info().pss for process in tree() if process not in before]
    await sandbox.destroy()
    return {"memory": [sum(added) / 2**20]}


def tree() -> list[psutil.Process]:
    """This process and all below it."""
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


async def census() -> dict[str, int]:
    """How much there is now; of processes that let only root look into them just that they are there."""
    gc.collect()
    await asyncio.sleep(_SETTLE_S)
    pids = [process.pid for process in tree()]
    views = list(_views(pids))
    return {
        "processes": len(pids),
        "mounts": sum(len(_text(view / "mountinfo").splitlines()) for view in views),
        "cgroups": sum(len(list(_CGROUPS.glob(f"{depth}assay-{pid}/**"))) for pid in pids for depth in ("", "*/")),
        "temporary files": _num_files(Path(tempfile.gettempdir())) + sum(map(_num_private_files, views)),
        "descriptors": sum(len(_entries(Path(f"/proc/{pid}/fd"))) for pid in pids),
    }


def _views(pids: list[int]) -> Iterator[Path]:
    """One process, as its folder in /proc, for each set of mounts that may be looked at."""
    seen: set[str] = set()
    for pid in pids:
        try:
            mounts = os.readlink(f"/proc/{pid}/ns/mnt")
        except (PermissionError, FileNotFoundError):
            continue
        if mounts not in seen:
            seen.add(mounts)
            yield Path(f"/proc/{pid}")


def _num_private_files(view: Path) -> int:
    """Files in a /tmp that is not everybody's; what others keep there is not ours to count."""
    private = view / "root/tmp"
    return _num_files(private) if private.stat().st_dev != Path("/tmp").stat().st_dev else 0


def _num_files(folder: Path) -> int:
    """Files and folders below; what is shown of the system's own is not gone into."""
    system, count = {os.stat(path).st_dev for path in ("/usr", sys.base_prefix)} - {os.stat(folder).st_dev}, 0
    for path, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        folders[:] = [name for name in folders if os.lstat(f"{path}/{name}").st_dev not in system]
    return count


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _text(path: Path) -> str:
    """The file's text; empty when the process has gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
