"""Group-relative advantages: only valid members vote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.advantages import group_standings

rewards = st.lists(st.one_of(st.none(), st.floats(0, 1).map(lambda r: round(r, 3))), max_size=12)


def advantages(group: list[float | None], **options: float) -> list[float | None]:
    return [s.advantage for s in group_standings(group, **options)]  # type: ignore[arg-type]


def test_advantages_are_distances_from_the_mean_in_standard_deviations() -> None:
    # mean 0.5, deviations 0.5 -0.5 0 0, population variance 0.125
    assert advantages([1.0, 0.0, 0.5, 0.5]) == pytest.approx([2**0.5, -(2**0.5), 0.0, 0.0])


def test_without_normalising_advantages_are_distances_from_the_mean() -> None:
    assert advantages([1.0, 0.0, 0.0, 0.0], normalise=False) == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_an_invalid_member_is_neither_in_the_baseline_nor_in_the_loss() -> None:
    first, second, invalid = group_standings([1.0, 0.0, None])
    assert (first.advantage, second.advantage, invalid.advantage) == (1.0, -1.0, None)
    assert (invalid.drop_reason, invalid.in_baseline) == ("invalid", False)
    assert first.in_baseline


@given(rewards, st.integers(1, 5), st.randoms())
def test_invalid_members_change_no_siblings_advantage(
    group: list[float | None], num_invalid: int, random: object
) -> None:
    valid = [r for r in group if r is not None]
    mixed = list(group)
    for _ in range(num_invalid):
        mixed.insert(random.randint(0, len(mixed)), None)  # type: ignore[attr-defined]
    kept = [s for s, r in zip(group_standings(mixed), mixed, strict=True) if r is not None]
    assert kept == group_standings(list(valid))


@given(rewards)
def test_used_advantages_sum_to_zero_and_keep_the_order_of_rewards(group: list[float | None]) -> None:
    used = [(r, s.advantage) for r, s in zip(group, group_standings(group), strict=True) if s.advantage is not None]
    assert sum(a for _, a in used) == pytest.approx(0, abs=1e-6)
    assert sorted(used) == sorted(used, key=lambda pair: (pair[1], pair[0]))


def test_a_group_whose_members_agree_gives_no_signal_but_is_a_baseline() -> None:
    assert [(s.drop_reason, s.in_baseline) for s in group_standings([1.0, 1.0, None])] == [
        ("no_signal", True),
        ("no_signal", True),
        ("invalid", False),
    ]


def test_a_group_with_too_few_valid_members_gives_no_signal() -> None:
    assert [s.drop_reason for s in group_standings([1.0, None, None])] == ["too_few_valid", "invalid", "invalid"]
    assert [s.drop_reason for s in group_standings([1.0, 0.0, None], min_valid=3)] == [
        "too_few_valid",
        "too_few_valid",
        "invalid",
    ]


def test_an_empty_group_has_no_standings() -> None:
    assert group_standings([]) == []
