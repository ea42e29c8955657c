"""Intervals agree with published ones and cover the truth as often as they say."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.statistics import change, paired_change, wilson

counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("passed", "num", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_agrees_with_newcombes_table(passed: int, num: int, low: float, high: float) -> None:
    assert wilson(passed, num) == pytest.approx((low, high), abs=5e-5)


def test_the_difference_agrees_with_newcombes_example() -> None:
    assert change((48, 80), (56, 70)) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_the_paired_difference_agrees_with_newcombes_example() -> None:
    after = [True] * 48 + [False] * 2
    before = [True] * 36 + [False] * 12 + [True] * 2
    assert paired_change(before, after) == pytest.approx((0.2, 0.0569, 0.3404), abs=5e-5)


@given(counts)
def test_an_interval_holds_the_rate_and_stays_in_range(count: tuple[int, int]) -> None:
    low, high = wilson(*count)
    assert 0 <= low <= high <= 1
    if count[1]:
        assert low <= count[0] / count[1] <= high


@given(counts, counts)
def test_a_change_mirrors_when_before_and_after_are_swapped(a: tuple[int, int], b: tuple[int, int]) -> None:
    there, back = change(a, b), change(b, a)
    assert -1 <= there.low <= there.difference <= there.high <= 1
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_a_paired_change_holds_its_difference_and_stays_in_range(pairs: list[tuple[bool, bool]]) -> None:
    got = paired_change([before for before, _ in pairs], [after for _, after in pairs])
    assert -1 - 1e-9 <= got.low <= got.difference <= got.high <= 1 + 1e-9


def test_wilson_covers_the_truth_about_as_often_as_stated() -> None:
    rng = random.Random(0)
    covered = 0
    for _ in range(4000):
        rate = rng.uniform(0.05, 0.95)
        passed = sum(rng.random() < rate for _ in range(48))
        low, high = wilson(passed, 48)
        covered += low <= rate <= high
    assert 0.935 < covered / 4000 < 0.965


def test_pairing_narrows_the_interval_when_the_tasks_agree() -> None:
    before = [True] * 20 + [False] * 20
    after = [True] * 24 + [False] * 16
    paired, independent = paired_change(before, after), change((20, 40), (24, 40))
    assert paired.high - paired.low < independent.high - independent.low


def test_nothing_counted_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert change((0, 0), (1, 2)) == (0.0, -1.0, 1.0)


def test_impossible_counts_and_unpaired_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="num_passed is 3 of num 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="before has 1 tasks but after has 2"):
        paired_change([True], [True, False])
