"""Decides what an agent's project or tests are worth, in new sandboxes that the agent never touched.

repaired(...)   hidden cases as calls and JSON results: out of process
killed(...)     the agent's tests against right code in two forms and against each mutant, a sandbox and a process
                each; only how the process ended counts. The tests are the submission itself, and share that
                process with the code: in process
"""

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import SandboxError
from assay.records import record
from environments.artifacts import Artifacts
from environments.sandboxes.base import Backend, Limits, SandboxSpec
from environments.verifying._sources import take_sources
from environments.verifying.judge import Call, Project, run_project

LIMITS = Limits(memory_bytes=256 << 20, disk_bytes=16 << 20, max_processes=32, cpu_s=20, max_file_bytes=1 << 20)
_DRIVER = "assay_calls"
_CALL = '''"""Calls a function by its module and name."""
from importlib import import_module


def call(target, *args):
    module, name = target.split(":")
    return getattr(import_module(module), name)(*args)
'''
_RUNNER = """
import sys, unittest
sys.stdout.write({nonce!r})
sys.stdout.flush()
sys.path.insert(0, ".")
unittest.main(module=None, argv=["unittest", "discover", "-s", "tests", "-t", "."])
"""
_AT_ONCE = 3


@record
class Killed:
    """Whether the tests pass on right code, and how many mutants they fail on."""

    sound: bool
    num_killed: int


async def repaired(
    sandboxes: Backend,
    left: Artifacts,
    package: str,
    vendored: Mapping[str, str],
    cases: Sequence[Mapping[str, Any]],
    timeout_s: float,
) -> int:
    """How many cases the agent's files of the package get right, beside the library as it should be.

    Raises SandboxError when the place failed.
    """
    taken = take_sources(left.files, [f"{package}/*.py"])
    if not taken.files:
        return 0
    sources = {path: data.decode("utf-8", "replace") for path, data in taken.files.items()}
    project = Project(files={**sources, **vendored, f"{_DRIVER}.py": _CALL}, module=_DRIVER, entry="call")
    sandbox = await sandboxes.create(SandboxSpec(limits=LIMITS, labels={"use": "verify"}))
    try:
        calls = [Call(args=[case["target"], *case["args"]]) for case in cases]
        found = await run_project(sandbox, project, calls, timeout_s=timeout_s)
    finally:
        await sandbox.destroy()
    return sum(result.gives(case["expected"]) for result, case in zip(found, cases, strict=True))


def uses(left: Artifacts, package: str) -> bool:
    """Whether any file imports from a package, as far as its text tells."""
    pattern = re.compile(rf"^[ \t]*(from|import)[ \t]+{re.escape(package)}\b", re.MULTILINE)
    return any(pattern.search(data.decode("utf-8", "replace")) for data in left.files.values())


async def killed(
    sandboxes: Backend,
    left: Artifacts,
    right: Sequence[Mapping[str, str]],
    mutants: Sequence[Mapping[str, str]],
    timeout_s: float,
) -> Killed:
    """What the agent's tests see. Raises SandboxError when a place failed."""
    taken = take_sources(left.files, ["tests/*.py"])
    if not taken.files:
        return Killed(sound=False, num_killed=0)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def passes(sources: Mapping[str, str]) -> bool:
        async with gate:
            return await _passes(sandboxes, {"tests/__init__.py": b"", **taken.files}, sources, timeout_s)

    if not all(await asyncio.gather(*map(passes, right))):
        return Killed(sound=False, num_killed=0)
    return Killed(sound=True, num_killed=(await asyncio.gather(*map(passes, mutants))).count(False))


async def _passes(sandboxes: Backend, tests: Mapping[str, bytes], sources: Mapping[str, str], timeout_s: float) -> bool:
    """Whether the tests end by themselves with success."""
    files: dict[str, str | bytes] = {**tests, **sources}
    sandbox = await sandboxes.create(SandboxSpec(files=files, limits=LIMITS, labels={"use": "verify"}))
    nonce = secrets.token_hex(8)
    try:
        command = ["python3", "-I", "-S", "-B", "-c", _RUNNER.format(nonce=nonce)]
        done = await sandbox.exec(command, timeout_s=timeout_s)
    finally:
        await sandbox.destroy()
    if not done.stdout.startswith(nonce):
        raise SandboxError(
            f"Python did not start in the sandbox (exit {done.exit_code}, signal {done.signal}, timed out "
            f"{done.timed_out}): {done.stderr[-300:]!r}. Check that python3 runs there."
        )
    return done.exit_code == 0 and not done.timed_out
