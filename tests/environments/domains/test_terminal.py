"""Terminal: every template is solvable, rejects what is wrong, and is judged from the artifacts alone."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from assay.ids import canonical_json
from assay.records import Cause, Split, TaskSpec
from assay.registry import build_plugin
from environments.artifacts import Artifacts, write
from environments.base import Outcome, Script, play
from environments.domains._terminal_compare import holds, printed_same
from environments.domains._terminal_problem import Check, csv_rows, ini_values, json_value, line_set, lines
from environments.domains.terminal import TEMPLATES, Terminal
from environments.sandboxes.base import Backend
from environments.tools import say_call
from tests.environments.domains.conftest import NoPlace

NUM_PARTS = 12  # of the tasks of a split: every template at every level, 3 for each template
TIDY = {"num_turns": 2.0, "valid_actions": 1.0, "recovery": 1.0}


@pytest.fixture
def domain() -> Terminal:
    return build_plugin("domain", "terminal")


@pytest.fixture
def copying(domain: Terminal) -> TaskSpec:
    """The small sound task behind the defective ones: copy the number in `in.txt` to `out.txt`."""
    spoilt = domain.defective_tasks(0)[2]
    number = spoilt.public["files"]["in.txt"]
    check = {"kind": "text", "path": "out.txt", "expected": number}
    return replace(
        spoilt,
        public={**spoilt.public, "kept": ["in.txt"], "collected": [f"{spoilt.public['folder']}/*"]},
        hidden={**spoilt.hidden, "checks": [check]},
    )


def name_of(task: TaskSpec) -> str:
    return task.template.split("/")[0]


async def faults_of(domain: Terminal, task: TaskSpec, sandboxes: Backend, kinds: tuple[str, ...]) -> list[str]:
    """Which scripts of the task are not judged as their standing says."""
    known = domain.solutions(task)
    scripts: dict[str, tuple[Script, ...]] = {
        "oracle": (known.oracle,),
        "noop": (known.noop,),
        "wrong": known.wrong,
        "equivalent": known.equivalent,
    }
    found = []
    for kind in kinds:
        for script in scripts[kind]:
            verdict = await domain.verify(task, await play(domain, task, script, sandboxes), sandboxes)
            as_it_should = {
                "oracle": (verdict.passed, verdict.reward) == (True, 1.0),
                "noop": verdict.valid and not verdict.passed and (verdict.reward or 0.0) <= 0.2,
                "wrong": verdict.valid and not verdict.passed,
                "equivalent": verdict.passed,
            }
            if not as_it_should[kind]:
                found.append(f"{task.id} {task.template} {kind} {script}: {verdict.reward} {verdict.failure}")
    return found


def test_there_are_many_templates_and_a_run_meets_all_of_them_at_every_level(domain: Terminal) -> None:
    assert len({template.id for template in TEMPLATES}) == len(TEMPLATES) >= 25
    num = 3 * len(TEMPLATES)
    met = Counter((name_of(task), task.level) for task in (domain.make_task("train", i, 5) for i in range(num)))
    assert set(met) == {(template.id, level) for template in TEMPLATES for level in (1, 2, 3)}
    assert set(met.values()) == {1}


async def test_the_oracle_solves_a_task_of_every_template(domain: Terminal, sandboxes: Backend) -> None:
    easy = build_plugin("domain", "terminal", {"level": 1})
    made = {name_of(task): task for task in (easy.make_task("train", i, 0) for i in range(3 * len(TEMPLATES)))}
    assert set(made) == {template.id for template in TEMPLATES}
    faults = await asyncio.gather(*(faults_of(easy, task, sandboxes, ("oracle",)) for task in made.values()))
    assert [fault for found in faults for fault in found] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(NUM_PARTS))
@pytest.mark.parametrize("split", ["train", "heldout"])
async def test_every_script_of_every_template_and_level_is_judged_as_it_should(
    domain: Terminal, sandboxes: Backend, split: Split, part: int
) -> None:
    num, at_once = 3 * len(TEMPLATES), asyncio.Semaphore(4)

    async def faults(index: int) -> list[str]:
        async with at_once:
            task = domain.make_task(split, index, 11)
            return await faults_of(domain, task, sandboxes, ("oracle", "noop", "wrong", "equivalent"))

    found = await asyncio.gather(*(faults(index) for index in range(part, num, NUM_PARTS)))
    assert [fault for each in found for fault in each] == []


async def test_turns_beyond_the_budget_cost_and_a_failing_last_command_costs(
    domain: Terminal, copying: TaskSpec, sandboxes: Backend
) -> None:
    """6 turns are free and 12 allowed: 9 turns are halfway, which gives steps 0.75, a twelfth of 0.3 less in all."""
    copied = domain.solutions(copying).oracle
    late = (*[say_call("run", command="true")] * 7, *copied)
    verdict = await domain.verify(copying, await play(domain, copying, late, sandboxes), sandboxes)
    assert verdict.passed is True
    assert verdict.reward == pytest.approx(0.7 + 0.3 * (0.75 + 1 + 1) / 3)
    failing = (copied[0], say_call("run", command="false"), copied[1])
    verdict = await domain.verify(copying, await play(domain, copying, failing, sandboxes), sandboxes)
    assert verdict.passed is True
    assert verdict.reward == pytest.approx(0.7 + 0.3 * 2 / 3)


async def test_a_changed_input_earns_nothing_although_the_output_is_right(domain: Terminal, copying: TaskSpec) -> None:
    folder, number = copying.public["folder"], copying.public["files"]["in.txt"].encode()
    right = {f"{folder}/in.txt": number, f"{folder}/out.txt": number}
    for files, reward in ((right, 1.0), ({**right, f"{folder}/in.txt": b"other\n"}, 0.0)):
        outcome = Outcome(submission=write(Artifacts(files=files)), metrics=TIDY)
        assert (await domain.verify(copying, outcome, NoPlace())).reward == reward


async def test_half_of_the_artifacts_earns_half_of_the_outcome(domain: Terminal, copying: TaskSpec) -> None:
    folder, (check,) = copying.public["folder"], copying.hidden["checks"]
    two = replace(copying, hidden={**copying.hidden, "checks": [check, {**check, "path": "more.txt"}]})
    number = check["expected"].encode()
    files = {f"{folder}/in.txt": number, f"{folder}/out.txt": number}
    verdict = await domain.verify(two, Outcome(submission=write(Artifacts(files=files)), metrics=TIDY), NoPlace())
    assert verdict.passed is False
    assert verdict.reward == pytest.approx(0.35)


async def test_artifacts_run_in_a_new_place_without_what_the_agent_left_elsewhere(
    domain: Terminal, copying: TaskSpec, sandboxes: Backend
) -> None:
    """A script that leans on a file beside it worked for the agent, and does not in the new place."""
    check = {"kind": "run", "path": "out.txt", "command": "bash out.txt", "files": {"in.txt": "9\n"}, "expected": "9\n"}
    public = {**copying.public, "collected": [f"{copying.public['folder']}/{name}" for name in ("in.txt", "out.txt")]}
    running = replace(copying, public=public, hidden={**copying.hidden, "checks": [check]})
    for command, passed in (("echo cat in.txt > out.txt", True), ("echo 9 > m; echo cat m > out.txt", False)):
        script = (say_call("run", command=f"cd {copying.public['folder']}; {command}"), say_call("finish"))
        verdict = await domain.verify(running, await play(domain, running, script, sandboxes), sandboxes)
        assert (verdict.valid, verdict.passed, verdict.judged) == (True, passed, "fresh_sandbox")


async def test_a_place_without_the_programs_is_blamed_and_not_the_agent(
    domain: Terminal, copying: TaskSpec, sandboxes: Backend
) -> None:
    check = {"kind": "run", "path": "out.txt", "command": "cat out.txt", "files": {}, "expected": "9\n"}
    public = {**copying.public, "programs": ["no-such-program"]}
    lacking = replace(copying, public=public, hidden={**copying.hidden, "checks": [check]})
    files = {f"{copying.public['folder']}/out.txt": b"9\n"}
    verdict = await domain.verify(lacking, Outcome(submission=write(Artifacts(files=files)), metrics=TIDY), sandboxes)
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.SANDBOX


@pytest.mark.parametrize(
    ("check", "left", "expected"),
    [
        (lines("a", ["1", "2"]), "1\n2", True),
        (lines("a", ["1", "2"]), "1\n2\n\n", True),
        (lines("a", ["1", "2"]), "1 \n2\n", False),
        (lines("a", ["1", "2"]), "1\r\n2\r\n", False),
        (lines("a", []), "", True),
        (line_set("a", ["x", "y", "y"]), "y\nx\ny\n", True),
        (line_set("a", ["x", "y", "y"]), "y\nx\n", False),
        (json_value("a", {"n": 1, "l": [2]}), '{"l": [2.0],\n "n": 1}', True),
        (json_value("a", {"n": 1}), '{"n": true}', False),
        (json_value("a", {"n": 1}), "{" * 10_000, False),
        (csv_rows("a", [("x", 1)]), '"x","1"\r\n', True),
        (csv_rows("a", [("x", 1)]), '"x"1"\n', False),
        (ini_values("a", {"s": {"k": "v"}}), "# note\n[s]\nk=v\n", True),
        (ini_values("a", {"s": {"k": "v"}}), "[s]\nk=v\n[t]\n", False),
        (ini_values("a", {"s": {"k": "v"}}), "k=v\n", False),
    ],
)
def test_comparisons_leave_open_only_what_the_instruction_does(check: Check, left: str, expected: bool) -> None:
    assert holds(check, Artifacts(files={"d/a": left.encode()}), "d") is expected
    assert not holds(check, Artifacts(files={"d/b": left.encode()}), "d")
    assert not holds(check, Artifacts(files={"d/a": b"\xff" + left.encode()}), "d")


def test_printed_lines_may_end_in_spaces_but_not_begin_with_them() -> None:
    assert printed_same("a  \nb\n\n", "a\nb\n")
    assert not printed_same("  a\nb\n", "a\nb\n")


def test_hidden_expectations_are_not_among_the_files_of_the_place(domain: Terminal) -> None:
    for index in range(60):
        task = domain.make_task("train", index, 2)
        shown = canonical_json(dict(task.public))
        for check in task.hidden["checks"]:
            assert not [text for text in check.get("files", {}).values() if len(text) > 40 and text in shown]
