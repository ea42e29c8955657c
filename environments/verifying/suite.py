"""Scores what an agent left with a whole pytest suite, in a new sandbox that the agent never touched.

    collected files --take_sources--> allowed sources --+
    pristine tests, canaries, pytest -------------------+--> new sandbox: _runner --> runs --tripwires--> Verdict

The tests share a process with the code they test, and whatever is imported into a process can beat that process. So a
reward from here is labelled `in_process`: see docs/verification.md for what is caught and what is not. Where a task can
be put as inputs and outputs, `judge` cannot be beaten this way.
"""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from assay.errors import EnvironmentAuthorError, SandboxError
from assay.records import Cause, Verdict, record
from environments.rubric import score
from environments.sandboxes.base import Backend, ExecResult, Limits, SandboxSpec
from environments.verifying._packages import packages
from environments.verifying._sources import Taken, take_sources
from environments.verifying.tripwires import Canaries, FileRun, Probe, plant, read_run, tripped

_RUNNER = Path(__file__).with_name("_runner.py").read_text()
_GRACE_S = 30.0
_REPORT_BYTES = 1 << 20
Files = Path | Mapping[str, bytes]


@record
class Suite:
    """Pristine tests by path (files named `test_*.py` or `*_test.py` are run; others can be imported or read), and
    the patterns of source paths an agent may deliver.

    `ids` must pass and `skipped` may be reported: both come from `with_known_ids`. `cpu_s` bounds each test file's
    process, `wall_s` all of them together: a busy machine must not fail right code, so give it plenty.
    """

    tests: Mapping[str, str]
    sources: tuple[str, ...]
    probes: tuple[Probe, ...] = ()
    ids: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    cpu_s: int = 20
    wall_s: float = 120.0

    @property
    def test_files(self) -> list[str]:
        named = [path for path in sorted(self.tests) if path.endswith(".py")]
        names = {path: PurePosixPath(path).name for path in named}
        return [path for path in named if names[path].startswith("test_") or names[path].endswith("_test.py")]


@record
class SuiteRun:
    """What became of every test that reported, and the evidence of tampering: reasons, empty when there is none."""

    outcomes: Mapping[str, str]
    said: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


async def with_known_ids(sandboxes: Backend, suite: Suite, reference: Files) -> Suite:
    """The suite with the ids that the reference solution's run shows.

    Raises EnvironmentAuthorError when a wire trips or a test fails for the reference, SandboxError as `run_suite`.
    """
    run = await run_suite(sandboxes, replace(suite, ids=(), skipped=()), reference)
    failing = {test: run.said.get(test, "") for test, outcome in run.outcomes.items() if outcome == "failed"}
    ids = tuple(sorted(test for test, outcome in run.outcomes.items() if outcome == "passed"))
    if run.evidence or failing or not ids:
        raise EnvironmentAuthorError(
            f"The reference does not pass the suite: {[*run.evidence, *failing.items()] or 'no test ran'}; every test "
            "must pass or be skipped for it. Correct the reference or the tests."
        )
    return replace(suite, ids=ids, skipped=tuple(sorted(run.outcomes.keys() - set(ids))))


async def verify_suite(
    sandboxes: Backend, suite: Suite, collected: Files, *, process: Mapping[str, float] | None = None
) -> Verdict:
    """The share of known tests that passed as outcome, `process` as in `rubric.score`; invalid when a wire tripped.

    Never raises for what an agent left. The agent's own sandbox must be destroyed before this is called.
    """
    if not suite.ids:
        return Verdict.invalid(Cause.ENVIRONMENT, "The suite has no known ids; make them with `with_known_ids`.")
    try:
        run = await run_suite(sandboxes, suite, collected)
    except SandboxError as error:
        return Verdict.invalid(Cause.SANDBOX, str(error), judged="in_process")
    if run.evidence:
        return Verdict.invalid(Cause.TAMPERED, _clean("; ".join(run.evidence)[:2000]), judged="in_process")
    num_passed = sum(run.outcomes.get(test) == "passed" for test in suite.ids)
    share = num_passed / len(suite.ids)
    return score(share, process or {}, passed=num_passed == len(suite.ids), judged="in_process")


def _clean(text: str) -> str:
    """Names come from the code under test and may hold what UTF-8 cannot express."""
    return text.encode("utf-8", "replace").decode()


async def run_suite(sandboxes: Backend, suite: Suite, collected: Files) -> SuiteRun:
    """Run the suite on the allowed sources of `collected`. Raises SandboxError when the place failed."""
    taken, canaries = take_sources(collected, suite.sources), plant(suite.probes)
    if taken.excess:
        return SuiteRun(outcomes={}, refused={**taken.refused, "": taken.excess})
    sandbox = await sandboxes.create(_spec(suite, taken, canaries))
    try:
        limits = {"cpu_s": suite.cpu_s, "wall_s": suite.wall_s}
        job = {"files": suite.test_files, "canaries": [canaries.file], **limits}
        done = await sandbox.exec(
            ["python3", "-I", "-S", "-B", "-c", _RUNNER],
            stdin=json.dumps(job).encode(),
            timeout_s=suite.wall_s + _GRACE_S,
            max_output=_REPORT_BYTES * (2 * len(suite.test_files) + 1),
        )
    finally:
        await sandbox.destroy()
    return _judged(suite, canaries, done, taken)


def _spec(suite: Suite, taken: Taken, canaries: Canaries) -> SandboxSpec:
    tests = {"assay.ini": "[pytest]\n", canaries.file: canaries.text, **suite.tests}
    files: dict[str, str | bytes] = {f"tests/{path}": text for path, text in tests.items()}
    files |= {f"source/{path}": content for path, content in taken.files.items()}
    files["source/.keep"] = b""
    limits = Limits(cpu_s=suite.cpu_s + 30)
    return SandboxSpec(files={**files, **_packages()}, limits=limits, labels={"use": "verify"})


def _packages() -> dict[str, bytes]:
    """pytest where the runner looks for it; the agent's code never runs before it is there."""
    return {f"packages/{path}": content for path, content in packages().items()}


def _judged(suite: Suite, canaries: Canaries, done: ExecResult, taken: Taken) -> SuiteRun:
    """The runner's books and the reports as outcomes and evidence."""
    ready, _, rest = done.stdout.partition("\n")
    if ready != "ready":
        raise SandboxError(
            f"The test runner did not start in the sandbox (exit {done.exit_code}, signal {done.signal}, timed out "
            f"{done.timed_out}): {done.stderr[-300:]!r}. Check that python3 runs there."
        )
    books = _books(rest)
    if done.exit_code != 0 or books is None:
        return SuiteRun(outcomes={}, evidence=_lost(done), refused=taken.refused)
    runs = [read_run(file, run) for file, run in books["runs"].items()]
    known = {*suite.ids, *suite.skipped} if suite.ids else None
    evidence = tripped(runs, books["changed"], canaries, known)
    return SuiteRun(
        outcomes=_outcomes(runs, canaries), said=_said(runs), evidence=tuple(evidence), refused=taken.refused
    )


def _books(text: str) -> dict[str, Any] | None:
    """The one object the runner writes; None when there is anything else."""
    try:
        books = json.loads(text) if text.count("\n") == 1 else None
    except ValueError:
        return None
    return books if isinstance(books, dict) and books.keys() == {"runs", "changed"} else None


def _lost(done: ExecResult) -> tuple[str, ...]:
    """Why there are no books: running out of memory is the code's own failure, the rest is an attack on the runner."""
    if done.oom_killed:
        return ()
    ending = f"exit {done.exit_code}, signal {done.signal}, timed out {done.timed_out}"
    return (f"the runner did not deliver its books alone ({ending}, {len(done.stdout)} characters)",)


def _outcomes(runs: list[FileRun], canaries: Canaries) -> dict[str, str]:
    planted = {*canaries.wrong, *canaries.right}
    return {
        test: run.outcome(test)
        for run in runs
        for test in {str(report["id"]) for report in run.reports} - planted
        if test.startswith(f"{run.file}::")
    }


def _said(runs: list[FileRun]) -> dict[str, str]:
    broken = {run.file: "; ".join(run.broken) for run in runs if run.broken}
    return broken | {str(r["id"]): str(r.get("said", "")) for run in runs for r in run.reports if r.get("said")}
