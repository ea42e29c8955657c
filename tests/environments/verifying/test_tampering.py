"""Every attack against the judge, the suite and, as a control, pytest in the agent's own sandbox."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from assay.records import Cause, Verdict
from assay.registry import build_plugin
from environments.sandboxes.base import Backend, Limits, SandboxSpec
from environments.verifying._packages import packages
from environments.verifying.judge import Call, Project, run_project
from environments.verifying.suite import Suite, verify_suite, with_known_ids
from environments.verifying.tripwires import Probe
from tests.environments.verifying.attacks import ATTACKS, CASES, FILES, RIGHT, TEST, WRONG, Attack

T = TypeVar("T")
NAMES = [attack.name for attack in ATTACKS]
BY_NAME = {attack.name: attack for attack in ATTACKS}
PLAIN = Attack("no attack", naive=False)
# More than any task should allow: even then the files that act by themselves stay behind.
SUITE = Suite(
    tests={"test_solution.py": TEST},
    sources=("*",),
    probes=(Probe(imports="from solution import total", value="total([2])"),),
    cpu_s=1,
)
# As the field does it: a login shell in the agent's own place, its exit code as the reward.
NAIVE = ". ./.profile; export PYTHONPATH=/workspace:/workspace/.packages; exec python3 -m pytest -q tests"


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    made = build_plugin("sandbox", "bubblewrap", {"max_concurrency": 3})
    yield made
    made.close()


@pytest.fixture(scope="module")
def suite(backend: Backend) -> Suite:
    """The suite with its known ids."""
    return asyncio.run(with_known_ids(backend, SUITE, {"solution.py": RIGHT.encode()}))


@pytest.fixture(scope="module")
def of_judge(backend: Backend) -> dict[str, float]:
    """The share of cases each attack gets right in the out-of-process judge."""
    return each(ATTACKS, lambda attack: judge_share(backend, attack.solution))


@pytest.fixture(scope="module")
def of_suite(backend: Backend, suite: Suite) -> dict[str, Verdict]:
    return each(ATTACKS, lambda attack: verify_suite(backend, suite, left_by(attack)))


@pytest.fixture(scope="module")
def of_naive(backend: Backend) -> dict[str, bool]:
    """Whether pytest in the agent's own sandbox reports success."""
    return each([PLAIN, *(a for a in ATTACKS if a.naive)], lambda attack: naive_success(backend, attack))


@pytest.fixture(scope="module")
def harmless(backend: Backend, suite: Suite) -> dict[str, Verdict]:
    """The right solution with each attack's files beside it."""
    return each(FILES, lambda a: verify_suite(backend, suite, left_by(a) | {"solution.py": RIGHT.encode()}))


def each(attacks: Iterable[Attack], run: Callable[[Attack], Awaitable[T]]) -> dict[str, T]:
    """What `run` gives for every attack, by name."""

    async def every() -> dict[str, T]:
        chosen = list(attacks)
        found = await asyncio.gather(*(run(attack) for attack in chosen))
        return {attack.name: result for attack, result in zip(chosen, found, strict=True)}

    return asyncio.run(every())


def left_by(attack: Attack) -> dict[str, bytes]:
    """What a collection of the agent's work dir holds."""
    files = {"tests/test_solution.py": TEST, "solution.py": attack.solution, **attack.files}
    return {p: t if isinstance(t, bytes) else t.encode() for p, t in files.items() if t is not None}


async def judge_share(sandboxes: Backend, solution: str) -> float:
    sandbox = await sandboxes.create(SandboxSpec(limits=Limits(cpu_s=2)))
    try:
        project = Project(files={"solution.py": solution}, module="solution", entry="total")
        results = await run_project(sandbox, project, [Call(args=[items]) for items, _ in CASES], timeout_s=20)
    finally:
        await sandbox.destroy()
    return sum(r.gives(expected) for r, (_, expected) in zip(results, CASES, strict=True)) / len(CASES)


async def naive_success(sandboxes: Backend, attack: Attack) -> bool:
    files = {f".packages/{path}": content for path, content in packages().items()}
    files |= {".profile": b"", **left_by(attack)}
    sandbox = await sandboxes.create(SandboxSpec(files=files))
    try:
        return (await sandbox.exec(NAIVE, timeout_s=60)).exit_code == 0
    finally:
        await sandbox.destroy()


@pytest.mark.parametrize("name", NAMES)
def test_no_attack_gets_a_case_right_in_the_judge(of_judge: dict[str, float], name: str) -> None:
    assert of_judge[name] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_the_suite_makes_of_every_attack_what_its_table_says(of_suite: dict[str, Verdict], name: str) -> None:
    verdict, expected = of_suite[name], BY_NAME[name].suite
    assert verdict.judged == "in_process"
    cause = verdict.failure.cause if verdict.failure else None
    found = "tampered" if cause is Cause.TAMPERED else "fooled" if verdict.reward else "failed"
    assert found == expected, verdict
    assert cause in (None, Cause.TAMPERED)


@pytest.mark.parametrize("name", [attack.name for attack in ATTACKS if attack.naive])
def test_the_attack_works_where_tests_run_in_the_agents_own_place(of_naive: dict[str, bool], name: str) -> None:
    assert of_naive[name]


def test_a_wrong_solution_without_an_attack_fails_there_too(of_naive: dict[str, bool]) -> None:
    assert not of_naive[PLAIN.name]


@pytest.mark.parametrize("name", [attack.name for attack in FILES])
def test_a_right_solution_passes_whatever_lies_beside_it(harmless: dict[str, Verdict], name: str) -> None:
    assert harmless[name].reward == 1.0, harmless[name]


async def test_a_right_solution_passes_the_judge(backend: Backend) -> None:
    assert await judge_share(backend, RIGHT) == 1.0


def test_every_row_that_the_suite_misses_is_in_the_documentation() -> None:
    said = Path(__file__).parents[3].joinpath("docs/verification.md").read_text()
    for attack in ATTACKS:
        row = f"| {attack.name} | {'yes' if attack.naive else '-'} | no reward | {attack.suite} |"
        assert row in said, row


def test_a_link_to_a_secret_is_not_followed(backend: Backend, suite: Suite, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text(RIGHT)
    left = tmp_path / "left"
    left.mkdir()
    (left / "solution.py").symlink_to(secret)
    (left / "other.py").write_text(WRONG)
    verdict = asyncio.run(verify_suite(backend, suite, left))
    assert (verdict.valid, verdict.reward) == (True, 0.0)
