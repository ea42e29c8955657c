"""Planning is deterministic, resuming is a set difference, every task gets its turn."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigurationError
from assay.records import Band, SolvabilityEstimate, TaskSpec
from rollouts.plan import choose_tasks, group_requests, missing, plan_groups
from tests.builders import GREEDY, POLICY, SAMPLED, a_task

TASKS = [a_task(name) for name in "abcde"]


def an_estimate(task: TaskSpec, band: Band) -> SolvabilityEstimate:
    return SolvabilityEstimate(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        policy_version=POLICY,
        num_valid=0,
        num_passed=0,
        pass_rate=0.5,
        low_rate=0.0,
        high_rate=1.0,
        band=band,
    )


def test_a_plan_has_a_group_per_task_with_indices_from_zero() -> None:
    requests = plan_groups(TASKS[:2], POLICY, SAMPLED, 3, "train", "r")
    assert [(r.task.id, r.index) for r in requests] == [(t.id, i) for t in TASKS[:2] for i in range(3)]
    assert [len(members) for members in group_requests(requests).values()] == [3, 3]


def test_a_plan_is_the_same_whoever_makes_it_and_differs_by_policy() -> None:
    first = plan_groups(TASKS, POLICY, SAMPLED, 2, "train", "run-1")
    again = plan_groups(TASKS, POLICY, SAMPLED, 2, "train", "run-2")
    other = plan_groups(TASKS, "p_next", SAMPLED, 2, "train", "run-1")
    assert [r.id for r in first] == [r.id for r in again]
    assert not {r.id for r in first} & {r.id for r in other}


def test_tasks_of_equal_content_make_one_group() -> None:
    assert len(plan_groups([TASKS[0], TASKS[0]], POLICY, SAMPLED, 2, "train", "r")) == 2


def test_a_greedy_group_of_copies_and_an_empty_group_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="8 at temperature 0"):
        plan_groups(TASKS, POLICY, GREEDY, 8, "evaluation", "r")
    with pytest.raises(ConfigurationError, match="group_size is 0"):
        plan_groups(TASKS, POLICY, SAMPLED, 0, "train", "r")


@given(st.sets(st.integers(0, 19)))
def test_done_and_missing_make_up_the_plan(done: set[int]) -> None:
    requests = plan_groups(TASKS, POLICY, SAMPLED, 4, "train", "r")
    done_ids = {requests[i].id for i in done}
    left = missing(requests, done_ids)
    assert {r.id for r in left} | done_ids == {r.id for r in requests}
    assert not {r.id for r in left} & done_ids
    assert missing(left, {r.id for r in left}) == []


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 3), st.integers(1, 9))
def test_no_task_comes_again_before_every_task_came(num_tasks: int, num: int, seed: int, iterations: int) -> None:
    tasks = [a_task(str(i)) for i in range(num_tasks)]
    times: Counter[str] = Counter()
    for _ in range(iterations):
        chosen = [t.content_hash for t in choose_tasks(tasks, [], times, num, seed=seed)]
        assert len(set(chosen)) == len(chosen) == min(num, num_tasks)
        times.update(chosen)
        counts = [times[t.content_hash] for t in tasks]
        assert max(counts) - min(counts) <= 1


def test_trainable_tasks_come_first_then_unknown_then_too_hard_then_saturated() -> None:
    bands = [Band.SATURATED, Band.TOO_HARD, Band.TRAINABLE, Band.UNKNOWN, Band.TRAINABLE]
    estimates = [an_estimate(t, band) for t, band in zip(TASKS, bands, strict=True) if band is not Band.UNKNOWN]

    def names(num: int, times: Mapping[str, int]) -> list[str]:
        return [t.id[-1] for t in choose_tasks(TASKS, estimates, times, num, seed=0)]

    assert set(names(2, {})) == {"c", "e"}
    assert names(5, {})[2:] == ["d", "b", "a"]
    assert set(names(9, {})) == set("abcde")
    trained = {t.content_hash: 1 for t in TASKS if t.id[-1] in "ce"}
    assert names(5, trained)[0] == "d"
    assert names(5, trained)[3:] == ["b", "a"]


def test_the_last_estimate_of_a_task_counts_and_the_choice_depends_on_nothing_else() -> None:
    estimates = [an_estimate(TASKS[0], Band.SATURATED), *(an_estimate(t, Band.TRAINABLE) for t in TASKS)]
    one = choose_tasks(TASKS, estimates, {}, 3, seed=1)
    assert one == choose_tasks(list(reversed(TASKS)), estimates, {}, 3, seed=1)
    assert choose_tasks(TASKS, estimates, {t.content_hash: 3 for t in TASKS[1:]}, 1, seed=1) == [TASKS[0]]
