"""The places of a `terminal` task: the sandbox of an episode with its files, and new ones in which artifacts are run.

opened(task)      a sandbox with the task's files, its programs there and its files set up
held(task, left)  one truth value per check; each artifact that must be run is run in a new sandbox
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from assay.errors import SandboxError
from assay.records import TaskSpec
from environments.artifacts import Artifacts
from environments.domains._terminal_compare import holds, printed_same
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec

LIMITS = Limits(memory_bytes=512 << 20, disk_bytes=64 << 20, max_processes=64, cpu_s=30)
_RUN_S = 20.0


async def opened(task: TaskSpec, sandboxes: Backend) -> Sandbox:
    """The sandbox of an episode. Raises SandboxError when it cannot be made, lacks a program or its set-up fails."""
    folder, files = task.public["folder"], task.public["files"]
    inside = {f"{folder}/{path}": content for path, content in files.items()}
    labels = {"task": task.id, "use": "episode"}
    sandbox = await sandboxes.create(SandboxSpec(files=inside, limits=LIMITS, labels=labels))
    try:
        await _require(sandbox, task.public["programs"])
        await _set_up(sandbox, task.public["setup"], folder)
    except BaseException:
        await sandbox.destroy()
        raise
    return sandbox


async def held(task: TaskSpec, left: Artifacts, sandboxes: Backend) -> list[bool]:
    """Which checks hold, in their order. Raises SandboxError when a place failed, never for what was left."""
    return [await _holds(task, check, left, sandboxes) for check in task.hidden["checks"]]


def kept(task: TaskSpec, left: Artifacts) -> bool:
    """Whether the files that must stay as they are did."""
    folder, files = task.public["folder"], task.public["files"]
    return all(left.files.get(f"{folder}/{path}") == files[path].encode() for path in task.public["kept"])


async def _holds(task: TaskSpec, check: Mapping[str, Any], left: Artifacts, sandboxes: Backend) -> bool:
    folder = task.public["folder"]
    if check["kind"] != "run":
        return holds(check, left, folder)
    files = {path: data for path, data in left.files.items() if _submitted(path, task.public["collected"])}
    if not files:
        return False
    hidden = {f"{folder}/{path}": content.encode() for path, content in check["files"].items()}
    return printed_same(await _printed(task, check["command"], {**files, **hidden}, sandboxes), check["expected"])


def _submitted(path: str, patterns: Sequence[str]) -> bool:
    return ".." not in path.split("/") and any(fnmatchcase(path, pattern) for pattern in patterns)


async def _printed(task: TaskSpec, command: str, files: Mapping[str, bytes], sandboxes: Backend) -> str:
    """What the command prints in a new sandbox with these files. Raises SandboxError when the place failed."""
    labels = {"task": task.id, "use": "verify"}
    sandbox = await sandboxes.create(SandboxSpec(files=files, limits=LIMITS, labels=labels))
    try:
        await _require(sandbox, task.public["programs"])
        done = await sandbox.exec(["bash", "-c", command], cwd=task.public["folder"], timeout_s=_RUN_S)
    finally:
        await sandbox.destroy()
    return done.stdout


async def _require(sandbox: Sandbox, programs: Sequence[str]) -> None:
    """Raises SandboxError when the place lacks a program: then nothing can be said about the agent."""
    done = await sandbox.exec(" && ".join(f"command -v {name}" for name in ("bash", *programs)))
    if done.exit_code != 0:
        raise SandboxError(f"The sandbox lacks one of the programs {', '.join(programs)}; use one that has them.")


async def _set_up(sandbox: Sandbox, commands: str, folder: str) -> None:
    if not commands:
        return
    done = await sandbox.exec(["bash", "-euc", commands], cwd=folder)
    if done.exit_code != 0:
        raise SandboxError(f"The task's files could not be set up (exit {done.exit_code}): {done.stderr[-300:]!r}.")
