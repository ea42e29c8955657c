"""The sets of reasoning_gym as domains: deterministic, proven by their own scorers, safe against what answers hold."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import ConfigurationError, EnvironmentAuthorError, VerifierError
from assay.records import Cause, TaskSpec, Verdict
from environments.base import Domain, Outcome, play, take
from environments.catalogue import build_domain, known_domains
from environments.formats import _reasoning_gym_worker as worker
from environments.formats._line_worker import LineWorker
from environments.formats.reasoning_gym import answer_in
from tests.environments.domains.conftest import NoPlace

pytest.importorskip("reasoning_gym")
SAMPLE = ("leg_counting", "spell_backward", "gcd")
EVERY = [name for name in known_domains() if name.startswith("reasoning_gym/")]
NO_REFERENCE = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
# Inspection must find these; which they are changes with the package's version.
UNUSABLE = {"knight_swap", "sokoban"}
TOO_TOLERANT = {"game_of_life_halting"}
REJECTS_SOME = {"jugs"}


async def judged(domain: Domain, task: TaskSpec, completion: str) -> Verdict:
    return await domain.verify(task, await play(domain, task, (completion,), NoPlace()), NoPlace())


def test_about_a_hundred_sets_are_found_without_importing_the_package() -> None:
    started = time.monotonic()
    assert len(EVERY) > 100
    assert "reasoning_gym/composite" not in EVERY
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("name", SAMPLE)
async def test_the_reference_passes_and_nothing_else_does(name: str) -> None:
    domain = build_domain(f"reasoning_gym/{name}")
    for task in (*take(domain, "train", 4, 0), *take(domain, "heldout", 2, 0)):
        known = domain.solutions(task)
        assert (await judged(domain, task, known.oracle[0])).reward == 1.0
        for script in known.equivalent:
            assert (await judged(domain, task, script[0])).passed
        for script in (known.noop, *known.wrong):
            verdict = await judged(domain, task, script[0])
            assert verdict.valid
            assert not verdict.passed


def test_tasks_depend_on_their_arguments_only_and_splits_share_no_question() -> None:
    one, other = build_domain("reasoning_gym/leg_counting"), build_domain("reasoning_gym/leg_counting")
    train, heldout = take(one, "train", 12, 3), take(one, "heldout", 12, 3)
    assert [task.content_hash for task in train] == [other.make_task("train", i, 3).content_hash for i in range(12)]
    assert not {task.prompt for task in train} & {task.prompt for task in heldout}
    assert {task.level for task in train} == {1, 2, 3}


@pytest.mark.parametrize("name", worker.EVALUATE)
async def test_a_scorer_that_evaluates_answers_cannot_be_made_to_run_one(name: str, tmp_path: Path) -> None:
    domain = build_domain(f"reasoning_gym/{name}")
    task, mark = domain.make_task("train", 0, 0), tmp_path / "ran"
    verdict = await judged(domain, task, f"<answer>[open({str(mark)!r}, 'w')]</answer>")
    assert not verdict.passed
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("x**2/2 + C", True),
        ("(5 + 3) * 4 - 8", True),
        ("sin(x) + exp(2*x)", True),
        ("x.__class__", False),
        ("__import__('os').system('id')", False),
        ("9**9**9", False),
        ("2**100000", False),
        ("lambda: 1", False),
    ],
)
def test_only_formulas_reach_the_parser_of_formulas(text: str, safe: bool) -> None:
    assert worker._is_formula(text) is safe


async def test_a_task_without_its_hidden_part_is_blamed_on_the_environment() -> None:
    domain = build_domain("reasoning_gym/gcd")
    task = domain.make_task("train", 0, 0)
    verdict = await domain.verify(replace(task, hidden={}), Outcome(submission="<answer>1</answer>"), NoPlace())
    assert verdict.failure is not None
    assert verdict.failure.cause is Cause.ENVIRONMENT


def test_an_unknown_set_is_told_with_near_ones() -> None:
    with pytest.raises(ConfigurationError, match="leg_counting"):
        build_domain("reasoning_gym/leg_count")


def test_a_level_at_which_a_set_fails_is_left_out_with_the_reason() -> None:
    domain = build_domain("reasoning_gym/caesar_cipher", {"levels": [1, 3]})
    assert {task.level for task in take(domain, "train", 4, 0)} == {1}
    (left_out,) = domain.left_out()
    assert (left_out.key, left_out.value) == ("level", "3")
    assert "rotation" in left_out.why


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<answer>4</answer>", "4"),
        ("first <answer>3</answer> then <answer> 4\n</answer>", "4"),
        ("<ANSWER>4</ANSWER>", "4"),
        ("4", None),
        ("<answer>4", None),
        ("", None),
    ],
)
def test_the_last_pair_of_tags_holds_the_answer(completion: str, answer: str | None) -> None:
    assert answer_in(completion) == answer


def test_a_worker_that_hangs_or_dies_is_told_and_the_next_order_starts_it_anew() -> None:
    slow = LineWorker(["sh", "-c", "read line; sleep 60"], "slow")
    with pytest.raises(VerifierError, match="no answer within"):
        slow.ask({"do": "wait"}, timeout_s=0.2)
    dead = LineWorker(["true"], "dead")
    with pytest.raises(VerifierError, match="dead"):
        dead.ask({"do": "go"}, timeout_s=5)
    echo = LineWorker(["sh", "-c", 'while read line; do echo "{\\"n\\": 1}"; done'], "echo")
    assert [echo.ask({}, timeout_s=5), echo.ask({}, timeout_s=5)] == [{"n": 1}, {"n": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
async def test_twenty_tasks_of_every_set_are_sound_or_the_set_is_known_not_to_be(name: str) -> None:
    domain, short = build_domain(name), name.partition("/")[2]
    if short in UNUSABLE:
        with pytest.raises(EnvironmentAuthorError):
            domain.make_task("train", 0, 0)
        return
    for task in (*take(domain, "train", 10, 0), *take(domain, "heldout", 10, 0)):
        if short in NO_REFERENCE:
            with pytest.raises(EnvironmentAuthorError):
                domain.solutions(task)
            continue
        known = domain.solutions(task)
        assert (await judged(domain, task, known.oracle[0])).reward == 1.0 or short in REJECTS_SOME
        assert not (await judged(domain, task, known.noop[0])).passed
        passed = [(await judged(domain, task, script[0])).passed for script in known.wrong]
        assert not any(passed) or short in TOO_TOLERANT
