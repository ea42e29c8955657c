"""The posterior is honest about small counts, and invalid rollouts have no say."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import SolvabilityConfig
from assay.records import Band, Cause, VerifiedTrajectory
from quality.solvability import band, count_outcomes, estimate, posterior
from tests.builders import GREEDY, POLICY, a_request, a_task, a_trajectory, a_verdict, a_verified, an_invalid

CONFIG = SolvabilityConfig.model_validate({"min_rate": 0.12, "max_rate": 0.88})


def rollouts(passed: int, failed: int, invalid: int = 0) -> list[VerifiedTrajectory]:
    verdicts = [a_verdict(1.0)] * passed + [a_verdict(0.0)] * failed + [an_invalid(c) for c in list(Cause)[:invalid]]
    return [a_verified(a_trajectory(a_request(index=i)), verdict) for i, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("passed", "valid", "mean", "low", "high"),
    [(0, 4, 0.1, 0.0005, 0.3625), (2, 4, 0.5, 0.1653, 0.8347), (0, 0, 0.5, 0.0062, 0.9938)],
)
def test_the_posterior_is_jeffreys(passed: int, valid: int, mean: float, low: float, high: float) -> None:
    got = posterior(passed, valid)
    assert (got.mean, got.low, got.high) == pytest.approx((mean, low, high), abs=5e-5)


@pytest.mark.parametrize("num", [4, 8, 24])
def test_the_interval_covers_the_truth_in_nine_of_ten_draws_from_the_prior(num: int) -> None:
    rng = random.Random(num)
    covered = 0
    for _ in range(4000):
        rate = rng.betavariate(0.5, 0.5)
        seen = posterior(sum(rng.random() < rate for _ in range(num)), num)
        covered += seen.low <= rate <= seen.high
    assert covered / 4000 == pytest.approx(0.9, abs=0.02)


@given(st.integers(0, 30), st.integers(0, 30))
def test_passes_and_failures_mirror_each_other(passed: int, failed: int) -> None:
    there, back = posterior(passed, passed + failed), posterior(failed, passed + failed)
    assert 0 <= there.low < there.mean < there.high <= 1
    assert (there.mean, there.low, there.high) == pytest.approx((1 - back.mean, 1 - back.high, 1 - back.low))


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 7))
def test_invalid_rollouts_change_nothing(passed: int, failed: int, invalid: int) -> None:
    with_them = count_outcomes(rollouts(passed, failed, invalid), {POLICY})
    assert with_them == count_outcomes(rollouts(passed, failed), {POLICY})
    (got,) = estimate([a_task()], POLICY, with_them, CONFIG)
    assert (got.num_passed, got.num_valid) == (passed, passed + failed)


@pytest.mark.parametrize(
    ("passed", "valid", "expected"),
    [(0, 4, Band.TOO_HARD), (4, 4, Band.SATURATED), (1, 4, Band.TRAINABLE), (0, 0, Band.UNKNOWN)],
)
def test_the_band_follows_the_posterior_mean(passed: int, valid: int, expected: Band) -> None:
    assert band(passed, valid, CONFIG) is expected


def test_only_samples_of_this_task_under_this_policy_count_and_each_once() -> None:
    good = a_verified()
    other_task = a_verified(a_trajectory(a_request(a_task("b"))))
    other_policy = a_verified(replace(a_trajectory(a_request(index=1)), last_policy="p_next"))
    greedy = a_verified(replace(a_trajectory(a_request(index=2)), sampling=GREEDY))
    shown = a_verified(a_trajectory(a_request(index=3, purpose="demonstration")))
    pool = [good, good, other_task, other_policy, greedy, shown]
    counts = count_outcomes(pool, {POLICY})
    assert counts == {a_task().content_hash: (1, 1), a_task("b").content_hash: (1, 1)}
    got = estimate([a_task(), a_task("c")], POLICY, counts, CONFIG)
    assert [(e.num_valid, e.band) for e in got] == [(1, Band.TRAINABLE), (0, Band.UNKNOWN)]


def test_more_passes_than_rollouts_are_refused() -> None:
    with pytest.raises(ValueError, match="num_passed is 2 of num_valid 1"):
        posterior(2, 1)
