"""How likely does this policy pass this task? A Beta posterior over its valid, sampled rollouts, and the band it gives.

With Jeffreys' prior Beta(1/2, 1/2) and k passes of n: posterior Beta(k + 1/2, n - k + 1/2), mean (k + 1/2) / (n + 1),
central 90 % interval between its 5 % and 95 % quantiles. Examples: 0 of 4 has mean 0.10 (0.00 to 0.36),
2 of 4 has 0.50 (0.17 to 0.83), nothing seen has 0.50 (0.01 to 0.99) and band `unknown`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from scipy.special import betaincinv

from assay.config import SolvabilityConfig
from assay.records import Band, SolvabilityEstimate, TaskSpec, VerifiedTrajectory, record

PRIOR = 0.5
TAIL = 0.05


@record
class Posterior:
    """Mean and central 90 % interval of a pass rate."""

    mean: float
    low: float
    high: float


def posterior(num_passed: int, num_valid: int) -> Posterior:
    """The posterior after `num_passed` of `num_valid` rollouts. Raises ValueError unless 0 <= passed <= valid."""
    if not 0 <= num_passed <= num_valid:
        raise ValueError(f"num_passed is {num_passed} of num_valid {num_valid}; 0 <= num_passed <= num_valid is needed")
    a, b = num_passed + PRIOR, num_valid - num_passed + PRIOR
    low, high = (float(betaincinv(a, b, quantile)) for quantile in (TAIL, 1 - TAIL))
    return Posterior(mean=a / (a + b), low=low, high=high)


def band(num_passed: int, num_valid: int, config: SolvabilityConfig) -> Band:
    """Where the posterior mean lies against the configured rates; unknown without a valid rollout.

    The prior keeps the mean off the ends: n failures of n give 1/(2n+2), so that 4 rollouts can only show `too_hard`
    when `min_rate` is above 0.1.
    """
    if num_valid == 0:
        return Band.UNKNOWN
    mean = posterior(num_passed, num_valid).mean
    if mean < config.min_rate:
        return Band.TOO_HARD
    return Band.SATURATED if mean > config.max_rate else Band.TRAINABLE


def count_outcomes(verified: Iterable[VerifiedTrajectory], policies: Collection[str]) -> dict[str, tuple[int, int]]:
    """(passed, valid) by task content hash, of the valid rollouts sampled wholly under one of `policies`.

    Invalid rollouts say nothing of the policy; greedy ones and demonstrations are no draws from it. A rollout given
    twice counts once.
    """
    draws = {v.trajectory.id: v for v in verified if _is_draw(v, policies)}
    counts: dict[str, tuple[int, int]] = {}
    for v in draws.values():
        passed, valid = counts.get(v.trajectory.task_hash, (0, 0))
        counts[v.trajectory.task_hash] = (passed + v.verdict.passed, valid + 1)
    return counts


def _is_draw(verified: VerifiedTrajectory, policies: Collection[str]) -> bool:
    trajectory = verified.trajectory
    sampled = trajectory.purpose != "demonstration" and not trajectory.sampling.greedy
    one_policy = trajectory.first_policy == trajectory.last_policy and trajectory.first_policy in policies
    return verified.verdict.valid and sampled and one_policy


def estimate(
    tasks: Sequence[TaskSpec],
    policy_version: str,
    outcomes: Mapping[str, tuple[int, int]],
    config: SolvabilityConfig,
) -> list[SolvabilityEstimate]:
    """One estimate per task, in order, for `policy_version`.

    `outcomes` holds (passed, valid) by content hash, as `count_outcomes` makes it; a task without is unknown.
    """
    return [_estimate(task, policy_version, *outcomes.get(task.content_hash, (0, 0)), config) for task in tasks]


def _estimate(
    task: TaskSpec, policy_version: str, num_passed: int, num_valid: int, config: SolvabilityConfig
) -> SolvabilityEstimate:
    seen = posterior(num_passed, num_valid)
    return SolvabilityEstimate(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        policy_version=policy_version,
        num_valid=num_valid,
        num_passed=num_passed,
        pass_rate=seen.mean,
        low_rate=seen.low,
        high_rate=seen.high,
        band=band(num_passed, num_valid, config),
    )
