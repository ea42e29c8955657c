"""From a family, its parameters and a bug to a concrete problem: right code, broken code and telling cases.

The cases are chosen so that the bug shows in at least half of the hidden ones where it can, and so that every other
known bug of the family shows too: weak tests would let wrong repairs pass.
"""

import ast
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from random import Random
from typing import Any

from assay.errors import EnvironmentAuthorError
from assay.ids import content_hash, derive_seed
from assay.records import Split, record
from environments.domains import _code_repair_lists, _code_repair_numbers, _code_repair_texts
from environments.domains._code_repair_family import Bug, Family, Options, broken, fill
from environments.domains._code_repair_inputs import GENERATORS
from environments.domains._common import side
from environments.verifying.judge import same

FAMILIES = (*_code_repair_lists.FAMILIES, *_code_repair_numbers.FAMILIES, *_code_repair_texts.FAMILIES)
NUM_VISIBLE = 3
NUM_HIDDEN = 12
_NUM_TRIED = 48
_NUM_DRAWS = 8
# One to show, one to test, one to spare.
_MIN_TELLING = 3


@record
class Case:
    """Arguments and the right result, both JSON data."""

    args: list[Any]
    expected: Any


@record
class Instance:
    """One template instance: a family with its parameters and one bug. The parameters decide the split."""

    family: Family
    options: Options
    bug: Bug

    @property
    def name(self) -> str:
        chosen = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.family.id}/{chosen}/{self.bug.kind}"


@record
class Problem:
    """A written-out instance. `visible[0]` fails on the broken code; `num_already_right` counts hidden cases that
    the broken code gets right. `answer` is the solution's digest, the same whatever the argument is called."""

    entry: str
    does: str
    broken: str
    solution: str
    other: str
    answer: str
    mutants: tuple[str, ...]
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    shown: str
    num_already_right: int


@lru_cache(maxsize=4)
def instances(split: Split) -> tuple[Instance, ...]:
    """Every instance of a split. Training and held-out share no (family, parameters), hence no answer."""
    return tuple(
        Instance(family=family, options=options, bug=bug)
        for family in FAMILIES
        for options in side(family.options, split, family.id)
        for bug in family.bugs
    )


@lru_cache(maxsize=16)
def order(split: Split, seed: int) -> tuple[int, ...]:
    """The order in which a run meets the instances of a split."""
    places = list(range(len(instances(split))))
    Random(derive_seed("code_repair", "order", split, seed)).shuffle(places)
    return tuple(places)


def write_problem(instance: Instance, rng: Random) -> Problem:
    """The problem with names and cases drawn from `rng`. Raises EnvironmentAuthorError if the bug never shows."""
    family = instance.family
    values = {**instance.options, "f": rng.choice(family.names), "v": rng.choice(family.variables)}
    right, wrong = fill(family.code, values), fill(broken(family, instance.bug), values)
    mutants = [fill(broken(family, bug), values) for bug in family.bugs if bug != instance.bug]
    visible, hidden = _telling_cases(instance, values, right, wrong, mutants, rng)
    return Problem(
        entry=values["f"],
        does=fill(family.does, values).strip(),
        broken=wrong,
        solution=right,
        other=fill(family.other, values),
        answer=answer_digest(fill(family.code, {**values, "v": "argument"})),
        mutants=tuple(mutants),
        visible=visible,
        hidden=hidden,
        shown=outcome_of(wrong, values["f"], visible[0]),
        num_already_right=sum(agrees(wrong, values["f"], case) for case in hidden),
    )


def _telling_cases(
    instance: Instance, values: Options, right: str, wrong: str, mutants: Sequence[str], rng: Random
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Visible and hidden cases on which the bug and its siblings show; draws again after an unlucky draw."""
    make, entry = GENERATORS[instance.family.inputs], values["f"]
    for _ in range(_NUM_DRAWS):
        tried = _distinct([make(rng, values) for _ in range(_NUM_TRIED)])
        cases = [Case(args=args, expected=call(right, entry, args)) for args in tried]
        telling = [case for case in cases if not agrees(wrong, entry, case)]
        if len(telling) >= _MIN_TELLING:
            visible, hidden = _choose(cases, telling, mutants, entry)
            if all(_first_telling(hidden, mutant, entry) for mutant in mutants):
                return visible, hidden
    raise EnvironmentAuthorError(
        f"code_repair {instance.name}: in {_NUM_DRAWS} draws of {_NUM_TRIED} inputs the bug or a sibling of it hardly "
        f"showed; change the bug or the inputs {instance.family.inputs!r}."
    )


def _choose(
    cases: list[Case], telling: list[Case], mutants: Sequence[str], entry: str
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Visible and hidden cases, disjoint. The first visible case is the shortest on which the bug shows."""
    first = min(telling, key=lambda case: len(repr(case.args)))
    rest = [case for case in cases if case is not first]
    visible, left = (first, *rest[: NUM_VISIBLE - 1]), rest[NUM_VISIBLE - 1 :]
    shows_bug = [case for case in left if case in telling][: NUM_HIDDEN // 2]
    shows_others = [case for mutant in mutants for case in _first_telling(left, mutant, entry)]
    return visible, tuple(_distinct([*shows_bug[:1], *shows_others, *shows_bug, *left])[:NUM_HIDDEN])


def _first_telling(cases: Sequence[Case], code: str, entry: str) -> list[Case]:
    return next(([case] for case in cases if not agrees(code, entry, case)), [])


def _distinct(values: list[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for value in values:
        seen.setdefault(repr(value), value)
    return list(seen.values())


@lru_cache(maxsize=4096)
def _function(code: str, entry: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "<code_repair>", "exec"), names)
    return names[entry]


def call(code: str, entry: str, args: list[Any]) -> Any:
    """What OUR OWN template code returns; submissions never come here, they run in a sandbox."""
    return _function(code, entry)(*deepcopy(args))


def agrees(code: str, entry: str, case: Case) -> bool:
    """Whether template code gets a case right; whatever it raises is a wrong result."""
    try:
        found = call(code, entry, case.args)
    except Exception:
        return False
    return same(found, case.expected)


def outcome_of(code: str, entry: str, case: Case) -> str:
    """`returned 2` or `raised KeyError` for template code."""
    try:
        return f"returned {call(code, entry, case.args)!r}"
    except Exception as error:
        return f"raised {type(error).__name__}"


def answer_digest(code: str) -> str:
    """Hash of a program's syntax tree, so layout and comments make no difference. For template code only."""
    return content_hash(ast.dump(ast.parse(code)))
