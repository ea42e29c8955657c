"""Runs a task directory: the agent's sandbox, the tests in a new one, the reference as commands.

agent       work dir + COPYed files, pytest                          nothing of /tests or /solution
tests       work dir as the agent left it, /tests read-only, /logs/verifier empty   -> reward files
reference   in the agent's place; its files come inside the command and are removed by it
"""

import asyncio
import base64
import gzip
import io
import shlex
import tarfile
from collections.abc import Mapping
from pathlib import Path

from assay.errors import EnvironmentAuthorError
from assay.records import RewardTerm, TaskSpec, Verdict, record
from environments.artifacts import Artifacts
from environments.formats import _kit
from environments.formats._bench import FolderBench, listed, placed, restored
from environments.formats._folder import Files, keep, marks
from environments.formats._harbor_read import Work
from environments.formats._rewards import MAX_BYTES, BadReward, Reward, read_pytest, read_reward
from environments.rubric import score
from environments.sandboxes.base import Backend, ExecResult, Limits, Sandbox, SandboxSpec
from environments.workbench import clipped

LOGS = "/logs/verifier"
_FOLDERS = (LOGS, "/logs/agent", "/logs/artifacts", "/solution", _kit.HOME)
_MAX_PACKED = 120_000  # a completion may have 200,000 characters
_OUTPUT = 1 << 20
_KEPT = 4_000
_IF_THERE = 'test -f "$0" && exec head -c "$1" "$0"'


@record
class Room:
    """What the options allow."""

    memory_bytes: int
    disk_bytes: int
    command_s: float
    submission_bytes: int
    stand_ins: bool


@record
class Tested:
    """What the tests did: their output, how they ended, and the reward files, None for a missing one."""

    done: ExecResult
    of_json: str | None
    of_text: str | None


async def open_bench(work: Work, task: TaskSpec, sandboxes: Backend, room: Room) -> FolderBench:
    """The agent's place. Raises EnvironmentAuthorError when the Dockerfile's commands fail, SandboxError."""
    sandbox = await _sandbox(work, sandboxes, room, {}, room.command_s)
    try:
        for command in work.commands:
            done = await sandbox.exec(["bash", "-c", command], timeout_s=room.command_s)
            if done.exit_code != 0:
                raise EnvironmentAuthorError(
                    f"{task.id}: RUN {command!r} of its Dockerfile ends with {done.exit_code}: {done.stderr[-300:]!r}"
                )
        known = await listed(sandbox) if work.image else marks(work.base)
    except BaseException:
        await sandbox.destroy()
        raise
    return FolderBench(
        task, sandbox, work.assay.artifacts, known=known, max_bytes=room.submission_bytes, command_s=room.command_s
    )


async def run_tests(work: Work, left: Artifacts, sandboxes: Backend, room: Room) -> Tested:
    """The tests on what an agent left, in a new sandbox. Raises SandboxError."""
    tests = await asyncio.to_thread(keep, work.tests, executable=(work.runner,))
    sandbox = await _sandbox(work, sandboxes, room, {"/tests": str(tests)}, work.tests_timeout_s)
    try:
        await restored(sandbox, left)
        await sandbox.exec(["rm", "-f", f"{LOGS}/reward.json", f"{LOGS}/reward.txt"])
        path = f"{_kit.INSIDE}/bin"
        done = await sandbox.exec(
            ["bash", "-c", f'export PATH="{path}:$PATH"; exec bash -c /tests/{work.runner} 2>&1'],
            env=dict(work.tests_env),
            timeout_s=work.tests_timeout_s,
            max_output=_OUTPUT,
        )
        return Tested(
            done=done,
            of_json=await _left_at(sandbox, "reward.json"),
            of_text=await _left_at(sandbox, "reward.txt"),
        )
    finally:
        await sandbox.destroy()


def judged(work: Work, tested: Tested, left: Artifacts) -> Verdict:
    """The verdict on what the tests said. Raises BadReward with what was found where a reward should be."""
    terms = [RewardTerm(name="tests", value=0.0, weight=0.0, note=_told(tested.done))]
    if left.refused:
        few = ", ".join(f"{path}: {why}" for path, why in list(left.refused.items())[:5])
        terms.append(RewardTerm(name="not_collected", value=1.0, weight=0.0, note=few))
    if tested.done.timed_out:
        raise BadReward(f"the tests did not end within {work.tests_timeout_s:g} s; {_told(tested.done)}")
    try:
        found = _of_pytest(tested) if work.layout == "terminal_bench" else read_reward(tested.of_json, tested.of_text)
    except BadReward as error:
        raise BadReward(f"{error}; {_told(tested.done)}") from error
    if found.conflict:
        terms.append(RewardTerm(name="reward_conflict", value=1.0, weight=0.0, note=found.conflict))
    terms += [
        RewardTerm(name=f"reported:{name}"[:80], value=value, weight=0.0)
        for name, value in list(found.numbers.items())[:20]
    ]
    verdict = score(found.value, {}, passed=found.value == 1.0, judged="in_process")
    return Verdict.of((*verdict.terms, *terms), passed=verdict.passed, judged="in_process")


def reference(work: Work) -> str:
    """The command that does what the oracle does. Raises EnvironmentAuthorError where there is no reference."""
    if not work.solver:
        raise EnvironmentAuthorError(f"{work.name} has no reference solution; without one it stays unproven.")
    return _command(work, work.solution)


def half_reference(work: Work) -> str:
    """The first half of the reference's lines: it can't earn more than the whole."""
    whole = work.solution[work.solver].source.read_bytes().splitlines(keepends=True)
    return _command(work, work.solution, b"".join(whole[: len(whole) // 2]) or b"true\n")


def script(text: str) -> str:
    """A command that runs a script of its own."""
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d | bash"


def tampering(work: Work) -> tuple[str, ...]:
    """Commands that try to be rewarded without doing anything."""
    always = "for f in txt json; do echo 1 > /logs/verifier/reward.$f; done"
    hook = "def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n"
    fake = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
    hooks = f"printf %s {shlex.quote(hook)} | tee conftest.py > sitecustomize.py; printf '[pytest]\\n' > pytest.ini"
    programs = f"mkdir -p tests bin; printf %s {shlex.quote(fake)} | tee test.sh tests/test.sh bin/pytest > bin/python3"
    shell = "chmod -R 755 tests bin; echo 'export PATH=$PWD/bin:$PATH' > .bashrc"
    return (
        f"mkdir -p {LOGS}; {always}",
        f"(while true; do {always}; sleep 0.1; done) > /dev/null 2>&1 &",
        hooks,
        f"{programs}; {shell}",
    )


async def _sandbox(work: Work, sandboxes: Backend, room: Room, mounts: Mapping[str, str], cpu_s: float) -> Sandbox:
    def prepared() -> tuple[Path, Path, dict[str, Path]]:
        shown = {inside: keep(files) for inside, files in work.shown.items()}
        return keep(work.base), _kit.kit(stand_ins=room.stand_ins), shown

    base, kit, shown = await asyncio.to_thread(prepared)
    extra = [path for path in _FOLDERS if path != work.work_dir and not work.work_dir.startswith(f"{path}/")]
    home = {"HOME": _kit.HOME} if _kit.HOME in extra else {}
    spec = SandboxSpec(
        image=work.image,
        mounts={_kit.INSIDE: str(kit), **{inside: str(path) for inside, path in shown.items()}, **mounts},
        writable=tuple(extra),
        work_dir=work.work_dir,
        limits=Limits(
            memory_bytes=min(room.memory_bytes, (work.memory_mb or 1 << 20) << 20),
            disk_bytes=room.disk_bytes,
            max_processes=256,
            cpu_s=max(30, int(cpu_s)),
            max_file_bytes=room.disk_bytes,
            max_open_files=1024,
        ),
        env={"PYTHONPATH": _kit.PYTHONPATH, "PYTHONDONTWRITEBYTECODE": "1", **home, **work.env},
        labels={"use": "verify" if mounts else "agent"},
    )
    return await placed(sandboxes, spec, base)


async def _left_at(sandbox: Sandbox, name: str) -> str | None:
    done = await sandbox.exec(["sh", "-c", _IF_THERE, f"{LOGS}/{name}", str(MAX_BYTES)], max_output=MAX_BYTES)
    return done.stdout if done.exit_code == 0 else None


def _of_pytest(tested: Tested) -> Reward:
    """Terminal-Bench: all must pass."""
    found = read_pytest(tested.done.stdout)
    share = sum(found.values()) / len(found)
    return Reward(value=float(all(found.values())), numbers={"share_passed": share})


def _told(done: ExecResult) -> str:
    said = clipped(done.stdout.strip(), _KEPT).encode("utf-8", "replace").decode()
    return f"exit code {done.exit_code}, output: {said}" if said else f"exit code {done.exit_code}, no output"


def _command(work: Work, files: Files, solver: bytes | None = None) -> str:
    packed = base64.b64encode(_packed(files, work.solver, solver)).decode()
    if len(packed) > _MAX_PACKED:
        raise EnvironmentAuthorError(
            f"{work.name}: its solution has {len(packed):,} characters when packed; at most {_MAX_PACKED:,} fit into "
            "the reference's command, and without a reference it stays unproven."
        )
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in work.solution_env.items())
    return (
        f"base64 -d <<'END' | tar xz -C /solution\n{packed}\nEND\n"
        f"env {given} bash /solution/{work.solver}; status=$?; rm -rf /solution/*; (exit $status)"
    )


def _packed(files: Files, solver: str, replaced: bytes | None) -> bytes:
    """A tar of the files, the same every time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, found in files.items():
            data = replaced if replaced is not None and path == solver else found.source.read_bytes()
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)
