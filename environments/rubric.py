"""Rewards from named parts: 0.7 outcome + 0.3 process, the process part paid only when the task is solved.

    a gate is closed         ->  0
    solved                   ->  0.7 + 0.3 * process        in 0.7 .. 1
    not solved, outcome o    ->  0.7 * min(o, 1)            in 0 .. 0.7, and below every solved one

So no amount of tidy behaviour beats a solution, and among solutions the tidier one earns more. Gates are what must
hold before anything is paid: the static checks, and that what was left runs at all.
"""

from collections.abc import Mapping
from dataclasses import field

from assay.records import Judging, RewardTerm, Verdict, record

PROCESS_WEIGHT = 0.3
# A failure whose outcome was 1 (every case right, yet rejected) still stays below a bare solution.
_UNSOLVED_CEILING = 0.999
_NO_NOTES: Mapping[str, str] = {}


@record
class Rubric:
    """Named terms with weights relative to the others of their part; without process terms the outcome has it all.

    Raises ValueError for a weight that is not positive, a name used twice, or no outcome.
    """

    outcome: Mapping[str, float]
    process: Mapping[str, float] = field(default_factory=dict)
    process_weight: float = PROCESS_WEIGHT

    def __post_init__(self) -> None:
        if not self.outcome or set(self.outcome) & set(self.process):
            raise ValueError(f"Rubric: outcome {list(self.outcome)} must not be empty nor share names with process")
        for name, weight in {**self.outcome, **self.process}.items():
            if not weight > 0:
                raise ValueError(f"Rubric: the weight of {name} is {weight!r} but must be positive")
        _in_unit_range({"process_weight": self.process_weight})

    def score(
        self,
        values: Mapping[str, float],
        *,
        passed: bool,
        judged: Judging,
        gates: Mapping[str, bool] | None = None,
        notes: Mapping[str, str] = _NO_NOTES,
    ) -> Verdict:
        """A valid verdict from one value in 0..1 for each term; `notes` say why, by term.

        Raises ValueError for a value outside 0..1 or for a pass through a closed gate, KeyError for a missing value.

        >>> Rubric(outcome={"fields": 9, "keys": 1}).score({"fields": 0.5, "keys": 1}, passed=False,
        ...     judged="out_of_process").reward
        0.55
        """
        closed = [name for name, held in (gates or {}).items() if not held]
        if closed and passed:
            raise ValueError(f"Rubric: passed, although {', '.join(closed)} did not hold")
        values = {name: float(values[name]) for name in (*self.process, *self.outcome)}
        _in_unit_range(values)
        share = self.process_weight if self.process else 0.0
        unsolved = 0.0 if closed else self._brake(values)
        terms = [
            *(_gate(name, held, notes) for name, held in (gates or {}).items()),
            *(_process(name, values[name], share * w, passed, notes) for name, w in _shares(self.process)),
            *(
                RewardTerm(
                    name=name,
                    value=1.0 if passed else values[name] * unsolved,
                    weight=(1.0 - share) * w,
                    note=notes.get(name, ""),
                )
                for name, w in _shares(self.outcome)
            ),
        ]
        return Verdict.of(tuple(terms), passed=passed, judged=judged)

    def _brake(self, values: Mapping[str, float]) -> float:
        earned = sum(values[name] * weight for name, weight in _shares(self.outcome))
        return min(1.0, _UNSOLVED_CEILING / earned) if earned else 1.0


def score(
    outcome: float,
    process: Mapping[str, float],
    *,
    passed: bool,
    judged: Judging,
    process_weight: float = PROCESS_WEIGHT,
) -> Verdict:
    """A valid verdict with one outcome; the terms of `process` share their weight equally, all values lie in 0..1.

    Without process terms the outcome carries the whole weight. Raises ValueError for a value outside 0..1.

    >>> score(0.5, {"steps": 1.0}, passed=False, judged="out_of_process").reward
    0.35
    """
    rubric = Rubric(outcome={"outcome": 1.0}, process=dict.fromkeys(process, 1.0), process_weight=process_weight)
    return rubric.score({"outcome": outcome, **process}, passed=passed, judged=judged)


def _shares(weights: Mapping[str, float]) -> list[tuple[str, float]]:
    total = sum(weights.values())
    return [(name, weight / total) for name, weight in weights.items()]


def _gate(name: str, held: bool, notes: Mapping[str, str]) -> RewardTerm:
    return RewardTerm(name=name, value=float(held), weight=0.0, note=notes.get(name, ""))


def _process(name: str, value: float, weight: float, passed: bool, notes: Mapping[str, str]) -> RewardTerm:
    if passed:
        return RewardTerm(name=name, value=value, weight=weight, note=notes.get(name, ""))
    return RewardTerm(name=name, value=0.0, weight=weight, note=f"{value:g}, not paid: the task is not solved")


def _in_unit_range(values: Mapping[str, float]) -> None:
    for name, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Rubric: {name} is {value!r} but must lie in 0..1")
