"""Intervals for pass rates: one rate, and the change from before to after.

Wilson's score interval and the intervals Newcombe builds from it stay inside their ranges and keep their coverage
for the small counts of held-out sets, where the textbook interval does not. Newcombe, Statistics in Medicine 17
(1998): 857-872 (one rate), 873-890 (difference, method 10), 2635-2650 (paired difference, method 10).
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """Both ends of an interval."""

    low: float
    high: float


class Change(NamedTuple):
    """A difference of two rates, after minus before, with the ends of its interval."""

    difference: float
    low: float
    high: float


def wilson(num_passed: int, num: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a rate; (0, 1) when nothing was counted.

    >>> wilson(12, 48)
    Interval(low=0.149..., high=0.387...)
    """
    _counts(num_passed, num)
    if num == 0:
        return Interval(0.0, 1.0)
    z, rate = _z(confidence), num_passed / num
    centre = rate + z * z / (2 * num)
    spread = z * sqrt(rate * (1 - rate) / num + z * z / (4 * num * num))
    scale = 1 + z * z / num
    # Rounding must not push the rate itself out of its interval, as it would at 0 and 1.
    return Interval(max(0.0, min(rate, (centre - spread) / scale)), min(1.0, max(rate, (centre + spread) / scale)))


def change(before: tuple[int, int], after: tuple[int, int], *, confidence: float = 0.95) -> Change:
    """Change between independent sets, each given as (num_passed, num). With an empty set nothing is known."""
    if before[1] == 0 or after[1] == 0:
        return Change(0.0, -1.0, 1.0)
    p1, p2 = after[0] / after[1], before[0] / before[1]
    (l1, u1), (l2, u2) = wilson(*after, confidence=confidence), wilson(*before, confidence=confidence)
    low = p1 - p2 - sqrt((p1 - l1) ** 2 + (u2 - p2) ** 2)
    high = p1 - p2 + sqrt((u1 - p1) ** 2 + (p2 - l2) ** 2)
    return Change(p1 - p2, low, high)


def paired_change(before: Sequence[bool], after: Sequence[bool], *, confidence: float = 0.95) -> Change:
    """Change on one set of tasks, seen before and after: narrower than `change` where the two agree on many tasks."""
    if len(before) != len(after):
        raise ValueError(f"before has {len(before)} tasks but after has {len(after)}; pair them task by task")
    num = len(before)
    if num == 0:
        return Change(0.0, -1.0, 1.0)
    p1, p2 = sum(after) / num, sum(before) / num
    l1, u1 = wilson(sum(after), num, confidence=confidence)
    l2, u2 = wilson(sum(before), num, confidence=confidence)
    phi = _phi(before, after)
    low = sqrt(max(0.0, (p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2))
    high = sqrt(max(0.0, (u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2))
    return Change(p1 - p2, p1 - p2 - low, p1 - p2 + high)


def _phi(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Correlation of the pairs, with Newcombe's continuity correction where it is positive; 0 when undefined."""
    pairs = list(zip(after, before, strict=True))
    both, gained = pairs.count((True, True)), pairs.count((True, False))
    lost, neither = pairs.count((False, True)), pairs.count((False, False))
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if margins == 0:
        return 0.0
    covariance = both * neither - gained * lost
    corrected = max(covariance - len(pairs) / 2, 0.0) if covariance > 0 else float(covariance)
    return corrected / sqrt(margins)


def _z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _counts(num_passed: int, num: int) -> None:
    if not 0 <= num_passed <= num:
        raise ValueError(f"num_passed is {num_passed} of num {num}; 0 <= num_passed <= num is needed")
