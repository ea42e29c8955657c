"""Group-relative advantages (GRPO, arXiv:2402.03300): how much better a trajectory was than its siblings.

Only valid members vote. Adding, removing or changing an invalid one changes no sibling's advantage.
"""

import math
from collections.abc import Sequence
from typing import Literal

from assay.records import record

DropReason = Literal["invalid", "too_few_valid", "no_signal"]

# Rewards closer than this are one reward: dividing by their spread would blow rounding up into a gradient.
SAME_REWARD = 1e-6


@record
class Standing:
    """One trajectory's place in its group: an advantage, or why it has none. `in_baseline`: its reward counts there."""

    advantage: float | None
    drop_reason: DropReason | None
    in_baseline: bool


def group_standings(rewards: Sequence[float | None], *, min_valid: int = 2, normalise: bool = True) -> list[Standing]:
    """One standing per member of a group; `None` is an invalid member.

    The advantage is the reward minus the mean of the valid ones, divided by their standard deviation (population)
    when `normalise`. Valid members get none when fewer than `min_valid` are valid, or when all rewards are equal.

    >>> [s.advantage for s in group_standings([1.0, 0.0, None, 1.0, 0.0])]
    [1.0, -1.0, None, 1.0, -1.0]
    """
    valid = [reward for reward in rewards if reward is not None]
    reason: DropReason | None = None
    if len(valid) < max(min_valid, 2):
        reason = "too_few_valid"
    elif max(valid) - min(valid) < SAME_REWARD:
        reason = "no_signal"
    if reason is not None:
        return [_dropped("invalid" if r is None else reason) for r in rewards]
    mean = math.fsum(valid) / len(valid)
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in valid) / len(valid)) if normalise else 1.0
    return [
        _dropped("invalid")
        if reward is None
        else Standing(advantage=(reward - mean) / spread, drop_reason=None, in_baseline=True)
        for reward in rewards
    ]


def _dropped(reason: DropReason) -> Standing:
    return Standing(advantage=None, drop_reason=reason, in_baseline=reason == "no_signal")
