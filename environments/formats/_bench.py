"""An agent at work on a folder that was there before, and that folder again for verification.

base + agent's work --outcome--> files that are new or changed, paths that are gone --restored--> a new sandbox
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from assay.errors import SandboxUnsupported
from assay.records import TaskSpec
from environments import artifacts
from environments.artifacts import Artifacts, fingerprint
from environments.base import Outcome
from environments.sandboxes.base import Backend, ExecResult, Sandbox, SandboxSpec
from environments.workbench import Workbench

_GONE = ["xargs", "-0", "-r", "rm", "-rf", "--"]
_NO_LINK = ["xargs", "-0", "-r", "-n1", "sh", "-c", 'if [ -h "$0" ]; then rm -- "$0"; fi']
_CACHES = ("__pycache__", ".pytest_cache")


class FolderBench(Workbench):
    """A workbench whose submission is what changed against `known`, fingerprints by path; commands get `command_s`."""

    def __init__(
        self,
        task: TaskSpec,
        sandbox: Sandbox,
        collected: Sequence[str],
        *,
        known: Mapping[str, str],
        max_bytes: int,
        command_s: float,
    ) -> None:
        super().__init__(task, sandbox, collected)
        self._known, self._max_bytes, self._command_s = known, max_bytes, command_s

    async def outcome(self) -> Outcome:
        left = await artifacts.collect(
            self.sandbox, self._collected, max_bytes=self._max_bytes, max_files=5_000, known=self._known
        )
        files = {path: data for path, data in left.files.items() if not set(_CACHES) & set(path.split("/"))}
        submission = artifacts.write(replace(left, files=files, answer=self._answer))
        return Outcome(submission=submission, metrics=self._metrics())

    async def _run(self, command: str) -> ExecResult:
        if "session" not in self.sandbox.capabilities:
            return await self.sandbox.exec(["bash", "-c", command], timeout_s=self._command_s)
        return await self.sandbox.exec(command, timeout_s=self._command_s, session="agent")


async def placed(sandboxes: Backend, spec: SandboxSpec, base: Path) -> Sandbox:
    """A sandbox with the folder `base`, which never changes, as its work dir. Raises SandboxError."""
    try:
        return await sandboxes.create(replace(spec, layers=(str(base),)))
    except SandboxUnsupported:
        sandbox = await sandboxes.create(spec)
    try:
        await sandbox.upload(base)
    except BaseException:
        await sandbox.destroy()
        raise
    return sandbox


async def restored(sandbox: Sandbox, left: Artifacts) -> None:
    """Make of the base what an agent left of it. Paths that lead out of the work dir are skipped."""
    removed = [path for path in left.removed if is_plain_path(path)]
    await sandbox.exec(_GONE, stdin=_joined(removed), timeout_s=60)
    files = {path: data for path, data in left.files.items() if is_plain_path(path)}
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"."}
    await sandbox.exec(_NO_LINK, stdin=_joined(sorted(parents)), timeout_s=60)
    with tempfile.TemporaryDirectory(prefix="assay-left-") as folder:
        await asyncio.to_thread(_write_all, Path(folder), files, frozenset(left.executable))
        await sandbox.upload(Path(folder))


async def listed(sandbox: Sandbox) -> dict[str, str]:
    """Fingerprints of what the work dir holds now."""
    with tempfile.TemporaryDirectory(prefix="assay-listed-") as folder:
        target = Path(folder, "work")
        found = await sandbox.download("", target)
        return {
            path: fingerprint((target / path).read_bytes(), executable=bool((target / path).stat().st_mode & 0o100))
            for path in found.files
        }


def is_plain_path(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and "\0" not in path and not any(part in ("", ".", "..") for part in parts)


def _joined(paths: Sequence[str]) -> bytes:
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)


def _write_all(folder: Path, files: Mapping[str, bytes], executable: frozenset[str]) -> None:
    """What an agent left is consistent; of a text that was made up, what contradicts itself is skipped."""
    for path, data in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(0o755 if path in executable else 0o644)
        except (OSError, ValueError):
            continue
    for made in folder.rglob("*"):
        if made.is_dir():
            made.chmod(0o755)
