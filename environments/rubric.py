"""Rewards from named parts: 0.7 outcome + 0.3 process, the process part paid only when the task is solved.

    solved                   ->  0.7 + 0.3 * process        in 0.7 .. 1
    not solved, outcome o    ->  0.7 * min(o, 1)            in 0 .. 0.7, and below every solved one

So no amount of tidy behaviour beats a solution, and among solutions the tidier one earns more.
"""

from collections.abc import Mapping

from assay.records import Judging, RewardTerm, Verdict

PROCESS_WEIGHT = 0.3
# A failure whose outcome was 1 (every case right, yet rejected) still stays below a bare solution.
_UNSOLVED_CEILING = 0.999


def score(
    outcome: float,
    process: Mapping[str, float],
    *,
    passed: bool,
    judged: Judging,
    process_weight: float = PROCESS_WEIGHT,
) -> Verdict:
    """A valid verdict; `outcome` and the values of `process` lie in 0..1, process terms share their weight equally.

    Without process terms the outcome carries the whole weight. Raises ValueError for a value outside 0..1.

    >>> score(0.5, {"steps": 1.0}, passed=False, judged="out_of_process").reward
    0.35
    """
    share = process_weight if process else 0.0
    for name, value in {"outcome": outcome, **process, "process_weight": share}.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Rubric: {name} is {value!r} but must lie in 0..1")
    earned = 1.0 if passed else min(outcome, _UNSOLVED_CEILING)
    # The small terms come first: summed in this order, the default weights give exactly 1.
    terms = [_process_term(name, value, share / len(process), passed) for name, value in process.items()]
    outcome_term = RewardTerm(name="outcome", value=earned, weight=1.0 - share)
    return Verdict.of((*terms, outcome_term), passed=passed, judged=judged)


def _process_term(name: str, value: float, weight: float, passed: bool) -> RewardTerm:
    if passed:
        return RewardTerm(name=name, value=value, weight=weight)
    return RewardTerm(name=name, value=0.0, weight=weight, note=f"{value:g}, not paid: the task is not solved")
