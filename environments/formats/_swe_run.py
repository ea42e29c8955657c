"""Runs an instance: the agent's sandbox on the tree, hidden tests in a new one, outcomes by pytest id.

agent    base tree (SWE-smith: with the bug, without the tests that show it)
tests    the same with what the agent changed, then the hidden tests' files over it, then pytest
"""

import asyncio
import base64
import gzip
import io
import json
import shlex
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from assay.errors import EnvironmentAuthorError
from assay.records import RewardTerm, TaskSpec, Verdict, record
from environments.artifacts import Artifacts
from environments.formats import _kit
from environments.formats._bench import FolderBench, placed, restored
from environments.formats._folder import marks
from environments.formats._rewards import BadReward
from environments.formats._swe_repo import contents, files_of, touched, tree
from environments.formats._swe_rows import Row
from environments.rubric import score
from environments.sandboxes.base import Backend, ExecResult, Limits, Sandbox, SandboxSpec
from environments.workbench import clipped

WORK_DIR = "/testbed"
PACKAGES = "/opt/packages"
_LOGS = "/logs/verifier"
_REPORT = f"{_LOGS}/report.jsonl"
_MAX_REPORT = 16 << 20
_MAX_PACKED = 120_000
_SETTINGS = {
    "conftest.py", "pytest.ini", "pytest.toml", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml",
    "sitecustomize.py", "usercustomize.py",
}  # fmt: skip


@record
class Place:
    """What the options allow and give: `packages` is a folder for sys.path, `image` a root file system, or empty."""

    clone: str
    packages: str
    image: str
    memory_bytes: int
    disk_bytes: int
    command_s: float
    tests_s: float
    submission_bytes: int


@record
class Trees:
    """An instance as folders: what the agent gets, the repaired contents of the files the patch touches, and the
    hidden tests' files; None for a file that is gone."""

    base: Path
    repaired: Mapping[str, bytes | None]
    hidden: Mapping[str, bytes | None]


def build(row: Row, clone: str) -> Trees:
    """Raises Unusable when the tree cannot be made."""
    paths = touched(row.patch, "patch")
    if row.kind == "bug":
        whole, broken = tree(clone, row.base_commit), tree(clone, row.base_commit, [row.patch])
        tests = row.test_files
        shown = tree(clone, row.base_commit, [row.patch], without=sorted({t.split("::")[0] for t in row.fail_to_pass}))
        return Trees(base=shown, repaired=contents(whole, paths), hidden=contents(broken, tests))
    base, right = tree(clone, row.base_commit), tree(clone, row.base_commit, [row.patch])
    if not row.test_patch.strip():
        return Trees(base=base, repaired=contents(right, paths), hidden=contents(base, row.test_files))
    tested = tree(clone, row.base_commit, [row.test_patch])
    files = sorted({*touched(row.test_patch, "test_patch"), *row.test_files})
    return Trees(base=base, repaired=contents(right, paths), hidden=contents(tested, files))


async def open_bench(row: Row, task: TaskSpec, sandboxes: Backend, place: Place) -> FolderBench:
    """The agent's place. Raises SandboxError, Unusable."""
    trees = await asyncio.to_thread(build, row, place.clone)
    known = marks(await asyncio.to_thread(files_of, trees.base))
    sandbox = await _sandbox(trees, sandboxes, place, place.command_s)
    return FolderBench(task, sandbox, ("*",), known=known, max_bytes=place.submission_bytes, command_s=place.command_s)


async def run_tests(row: Row, left: Artifacts, sandboxes: Backend, place: Place) -> tuple[ExecResult, str]:
    """How pytest ended and its report. Raises SandboxError, Unusable."""
    trees = await asyncio.to_thread(build, row, place.clone)
    allowed = _allowed(trees, left)
    sandbox = await _sandbox(trees, sandboxes, place, place.tests_s)
    try:
        await restored(sandbox, allowed)
        await restored(sandbox, _hidden(trees))
        words = [f"{_kit.INSIDE}/bin/pytest", "-p", "assay_report", f"--rootdir={WORK_DIR}", "-q", *row.test_files]
        done = await sandbox.exec(words, env={"ASSAY_REPORT": _REPORT}, timeout_s=place.tests_s, max_output=1 << 20)
        told = await sandbox.exec(["head", "-c", str(_MAX_REPORT), _REPORT], max_output=_MAX_REPORT)
        return done, told.stdout
    finally:
        await sandbox.destroy()


def judged(row: Row, done: ExecResult, report: str, left: Artifacts) -> Verdict:
    """F2P times P2P; passed when all of both pass. Raises BadReward when the tests could not be run."""
    said = clipped(f"{done.stdout}\n{done.stderr}".strip(), 4_000).encode("utf-8", "replace").decode()
    if done.timed_out:
        raise BadReward(f"the tests did not end in time: {said}")
    outcomes = read_report(report)
    if outcomes is None:
        raise BadReward(f"pytest did not start (exit code {done.exit_code}): {said}")
    shares = [_share(ids, outcomes) for ids in (row.fail_to_pass, row.pass_to_pass)]
    passed = shares == [1.0, 1.0]
    failing = [each for each in row.ids if not outcomes.get(each)]
    verdict = score(shares[0] * shares[1], {}, passed=passed, judged="in_process")
    refused = ", ".join(f"{path}: {why}" for path, why in list(left.refused.items())[:5])
    terms = (
        RewardTerm(name="fail_to_pass", value=shares[0], weight=0.0, note=f"not passed: {', '.join(failing[:10])}"),
        RewardTerm(
            name="pass_to_pass", value=shares[1], weight=0.0, note=f"not collected: {refused}" if refused else ""
        ),
        RewardTerm(name="tests", value=0.0, weight=0.0, note=said),
    )
    return Verdict.of((*verdict.terms, *terms), passed=passed, judged="in_process")


def read_report(text: str) -> dict[str, bool] | None:
    """Whether each test passed, None when pytest never came up. A test that has no report, or a bad one, did not."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    if {"ready": True} not in lines:
        return None
    outcomes: dict[str, bool] = {}
    for line in lines:
        if isinstance(line, dict) and isinstance(test := line.get("id"), str):
            outcomes[test] = outcomes.get(test, True) and line.get("outcome") == "passed"
    return outcomes


def repair(row: Row, clone: str) -> str:
    """The command that brings the repair. Raises EnvironmentAuthorError when it is too large for one."""
    return _write_command(row, build(row, clone).repaired)


def partial_repair(row: Row, clone: str) -> str:
    """The repair of the first half of the files, none of a single one."""
    repaired = build(row, clone).repaired
    return _write_command(row, dict(sorted(repaired.items())[: len(repaired) // 2]))


def tampering(row: Row) -> tuple[str, ...]:
    """Commands that try to pass without a repair."""
    hook = (
        "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    result = yield\n    result.get_result().outcome = 'passed'\n"
    )
    tests = shlex.join(row.test_files)
    return (
        f"printf %s {shlex.quote(hook)} > conftest.py; printf '[pytest]\\n' > pytest.ini",
        f"for f in {tests}; do mkdir -p \"$(dirname $f)\"; echo 'def test_nothing(): pass' > $f; done",
        "mkdir -p _pytest; echo 'raise SystemExit(0)' | tee sitecustomize.py > pytest.py",
    )


def _share(ids: tuple[str, ...], outcomes: Mapping[str, bool]) -> float:
    return sum(bool(outcomes.get(each)) for each in ids) / len(ids) if ids else 1.0


def _allowed(trees: Trees, left: Artifacts) -> Artifacts:
    """What of the agent's work counts: settings of pytest and Python only where the repair changes them itself."""

    def counts(path: str) -> bool:
        pure = PurePosixPath(path)
        settings = pure.name in _SETTINGS or pure.suffix in (".pth", ".pyc", ".so")
        new = not (trees.base / path.split("/")[0]).exists()
        shadows = new and path.split("/")[0].removesuffix(".py") in {*sys.stdlib_module_names, "pytest", "_pytest"}
        return path in trees.repaired or not (settings or shadows)

    files = {path: data for path, data in left.files.items() if counts(path)}
    removed = tuple(path for path in left.removed if counts(path))
    return Artifacts(files=files, removed=removed, executable=left.executable)


def _hidden(trees: Trees) -> Artifacts:
    files = {path: data for path, data in trees.hidden.items() if data is not None}
    return Artifacts(files=files, removed=tuple(path for path, data in trees.hidden.items() if data is None))


async def _sandbox(trees: Trees, sandboxes: Backend, place: Place, cpu_s: float) -> Sandbox:
    kit = await asyncio.to_thread(_kit.kit, stand_ins=False)
    extra = {PACKAGES: place.packages} if place.packages else {}
    found = [_kit.PYTHONPATH, *([PACKAGES] if extra else []), WORK_DIR, f"{WORK_DIR}/src", f"{WORK_DIR}/lib"]
    spec = SandboxSpec(
        image=place.image,
        mounts={_kit.INSIDE: str(kit), **extra},
        writable=(_LOGS, _kit.HOME),
        work_dir=WORK_DIR,
        limits=Limits(
            memory_bytes=place.memory_bytes,
            disk_bytes=place.disk_bytes,
            max_processes=256,
            cpu_s=max(30, int(cpu_s)),
            max_file_bytes=place.disk_bytes,
            max_open_files=1024,
        ),
        env={"PYTHONPATH": ":".join(found), "PYTHONDONTWRITEBYTECODE": "1", "HOME": _kit.HOME},
        labels={"use": "swe"},
    )
    return await placed(sandboxes, spec, trees.base)


def _write_command(row: Row, files: Mapping[str, bytes | None]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            if data is not None:
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(data), 0o644
                archive.addfile(info, io.BytesIO(data))
    packed = base64.b64encode(gzip.compress(buffer.getvalue(), mtime=0)).decode()
    if len(packed) > _MAX_PACKED:
        raise EnvironmentAuthorError(
            f"{row.instance_id}: its repair has {len(packed):,} characters when packed; at most {_MAX_PACKED:,} fit "
            "into the reference's command, and without a reference it stays unproven."
        )
    gone = shlex.join(path for path, data in files.items() if data is None)
    return f"base64 -d <<'END' | tar xz\n{packed}\nEND\n" + (f"rm -f {gone}\n" if gone else "")
