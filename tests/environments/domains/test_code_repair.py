"""Code repair: telling cases, honest judging, two turns."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from assay.errors import SandboxError, SandboxLaunchError
from assay.records import Cause, TaskSpec, Verdict
from assay.registry import build_plugin
from environments.base import Outcome
from environments.domains import _code_repair_task as problems
from environments.domains._code_repair_family import broken, fill
from environments.domains._code_repair_inputs import GENERATORS
from environments.domains.code_repair import CodeRepair, fence, parse_code
from environments.sandboxes.base import Backend, ExecResult, SandboxSpec
from tests.builders import an_exec_result
from tests.environments.domains.conftest import NoPlace

TIDY = {"steps": 1.0, "valid_actions": 1.0, "recovery": 1.0}


@pytest.fixture
def domain() -> CodeRepair:
    return build_plugin("domain", "code_repair")


@pytest.fixture
def counting(domain: CodeRepair) -> TaskSpec:
    """A task of the family count_above."""
    every = (domain.make_task("train", index, 0) for index in range(len(problems.instances("train"))))
    return next(task for task in every if task.template.startswith("count_above/"))


async def judged(domain: CodeRepair, task: TaskSpec, code: str, sandboxes: Backend) -> Verdict:
    return await domain.verify(task, Outcome(submission=code, metrics=TIDY), sandboxes)


def test_there_are_many_families_and_kinds_of_bugs() -> None:
    assert len(problems.FAMILIES) >= 25
    assert len({bug.kind for family in problems.FAMILIES for bug in family.bugs}) >= 12
    names = [name for family in problems.FAMILIES for name in family.names]
    assert len(set(names)) == len(names), "a name used by two families would let one task's answer pass another"


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_the_cases_of_every_instance_show_its_bug_and_all_its_siblings(split: Any) -> None:
    for number, instance in enumerate(problems.instances(split)):
        problem = problems.write_problem(instance, Random(number))
        entry = problem.entry
        assert not problems.agrees(problem.broken, entry, problem.visible[0]), instance.name
        assert all(problems.agrees(problem.other, entry, case) for case in problem.visible + problem.hidden)
        assert problem.num_already_right < len(problem.hidden) >= 8, instance.name
        for mutant in problem.mutants:
            assert not all(problems.agrees(mutant, entry, case) for case in problem.hidden), (instance.name, mutant)


def test_bugs_are_where_the_families_say() -> None:
    for family in problems.FAMILIES:
        assert family.inputs in GENERATORS
        assert len({bug.kind for bug in family.bugs}) == len(family.bugs), f"{family.id}: kinds name template instances"
        values = {**family.options[0], "f": family.names[0], "v": family.variables[0]}
        right = fill(family.code, values)
        made = [fill(broken(family, bug), values) for bug in family.bugs]
        assert len({right, *made}) == len(made) + 1
        assert 2 <= right.count("\n") <= 7


CHEATS = {
    "equal to everything": "class Yes(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
    "def {f}(*a):\n    return Yes(-7)",
    "exit with success": "import os\nos._exit(0)\ndef {f}(*a): pass",
    "forged lines": "import os, sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\n"
    "job, out = frame.f_globals['job'], frame.f_globals['out']\n"
    "for i in range(len(job['inputs'])):\n"
    "    for value in range(9):\n"
    "        os.write(out, ('\\n%s{{\"case\": %d, \"value\": %d}}\\n' % (job['nonce'], i, value)).encode())\n"
    "os._exit(0)",
    "patched json": 'import json\njson.dumps = lambda *a, **k: \'{{"case": 0, "value": 0, "passed": true}}\'\n'
    "def {f}(*a): return 0",
    "looks for answers": "import sys\ndef {f}(*a):\n    return sys._getframe(2).f_globals['job']['expected']",
    "prints a verdict": "def {f}(*a):\n    print('PASSED 12 of 12')",
}


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_earns_nothing(domain: CodeRepair, counting: TaskSpec, sandboxes: Backend, name: str) -> None:
    code = CHEATS[name].format(f=counting.public["entry"])
    verdict = await judged(domain, counting, code, sandboxes)
    assert verdict.valid
    assert not verdict.passed
    assert verdict.reward is not None
    assert verdict.reward < 0.2


async def test_a_partial_repair_earns_only_what_it_gained(
    domain: CodeRepair, counting: TaskSpec, sandboxes: Backend
) -> None:
    base, cases = counting.hidden["num_already_right"], counting.hidden["cases"]
    known = {repr(case["args"]): case["expected"] for case in cases[: base + 1]}
    code = f"def {counting.public['entry']}(*a):\n    return {known!r}.get(repr(list(a)))"
    verdict = await judged(domain, counting, code, sandboxes)
    assert verdict.reward == pytest.approx(0.7 * 1 / (len(cases) - base))
    unchanged = await judged(domain, counting, counting.public["code"], sandboxes)
    assert unchanged.reward == 0.0


async def test_nothing_to_run_is_graded_without_a_sandbox(domain: CodeRepair, counting: TaskSpec) -> None:
    for code in ("", "  \n", "x" * 30_000):
        verdict = await judged(domain, counting, code, NoPlace())
        assert (verdict.valid, verdict.reward) == (True, 0.0)


async def test_no_hidden_cases_is_no_verdict(domain: CodeRepair, counting: TaskSpec) -> None:
    empty = replace(counting, hidden={**counting.hidden, "cases": []})
    for code in ("", counting.hidden["solution"]):
        verdict = await judged(domain, empty, code, NoPlace())
        assert verdict.failure is not None
        assert verdict.failure.cause is Cause.ENVIRONMENT


class Silent:
    """A sandbox in which the interpreter never comes up."""

    id = "silent"

    async def create(self, spec: SandboxSpec) -> "Silent":
        return self

    async def exec(self, command: Sequence[str], **options: Any) -> ExecResult:
        return an_exec_result(exit_code=127, stderr="python3: not found")

    async def destroy(self) -> None:
        pass


async def test_a_place_without_python_is_no_verdict(domain: CodeRepair, counting: TaskSpec) -> None:
    silent: Any = Silent()
    verdict = await judged(domain, counting, counting.hidden["solution"], silent)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX
    assert "not found" in verdict.failure.detail
    episode = await domain.open(counting, silent)
    with pytest.raises(SandboxError, match="did not start"):
        await episode.reply(fence(counting.hidden["solution"]))


async def test_a_place_that_cannot_be_made_is_no_verdict(domain: CodeRepair, counting: TaskSpec) -> None:
    faulty = build_plugin("sandbox", "bubblewrap", {"fault_rate": 1.0})
    verdict = await judged(domain, counting, counting.hidden["solution"], faulty)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX
    with pytest.raises(SandboxLaunchError):
        await domain.open(counting, faulty)


async def test_a_second_turn_after_the_failing_output_recovers(
    domain: CodeRepair, counting: TaskSpec, sandboxes: Backend
) -> None:
    known = domain.solutions(counting)
    episode = await domain.open(counting, sandboxes)
    try:
        first = await episode.reply(*known.noop)
        assert not first.done
        assert first.valid_action
        assert first.observation.startswith(f"{counting.public['entry']}(")
        assert first.observation.endswith("Correct the function.")
        assert f"expected {counting.public['examples'][0]['expected']}" in first.observation
        second = await episode.reply(*known.oracle)
        assert second.done
    finally:
        await episode.close()
    outcome = await episode.outcome()
    assert outcome.metrics == {
        "num_turns": 2.0,
        "num_invalid_actions": 0.0,
        "steps": 0.5,
        "valid_actions": 1.0,
        "recovery": 1.0,
    }
    verdict = await domain.verify(counting, outcome, sandboxes)
    assert verdict.passed
    assert verdict.reward == pytest.approx(0.95)


async def test_an_invalid_action_costs_a_turn_and_keeps_the_last_code(
    domain: CodeRepair, counting: TaskSpec, sandboxes: Backend
) -> None:
    episode = await domain.open(counting, sandboxes)
    try:
        await episode.reply(fence(counting.public["code"]))
        reply = await episode.reply("I give up.")
        outcome = await episode.outcome()
    finally:
        await episode.close()
    assert (reply.done, reply.valid_action) == (True, False)
    assert "```python" in reply.observation
    assert outcome.submission.strip() == counting.public["code"].strip()
    assert outcome.metrics["recovery"] == 0.0


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Here:\n```py\nx = 1\n```\n```python\ny = 2\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```json\n{}\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\ndef f():\n    return 1", "def f():\n    return 1"),
        ("def f():\n    return 1", "def f():\n    return 1"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
        ("The answer is x = 1.", None),
        ("```python\n```", None),
        ("", None),
    ],
)
def test_the_first_python_block_is_the_action(completion: str, code: str | None) -> None:
    assert parse_code(completion) == code


def test_more_turns_can_be_asked_for() -> None:
    domain = build_plugin("domain", "code_repair", {"max_turns": 3, "max_new_tokens": 80})
    task = domain.make_task("train", 0, 0)
    assert (task.max_turns, task.max_new_tokens) == (3, 80)


def test_prompts_show_the_function_and_a_failing_example(counting: TaskSpec) -> None:
    said = counting.prompt[-1].content
    example = counting.public["examples"][0]
    assert fence(counting.public["code"]) in said
    assert f"{counting.public['entry']}({example['args'][0]!r})" in said
    assert f"expected {example['expected']!r}" in said
