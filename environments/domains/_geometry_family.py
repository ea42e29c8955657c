"""What a family of modelling problems is, and the small language its problems are written in."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from assay.records import record

Operation = Mapping[str, Any]
Operations = tuple[Operation, ...]


@record
class Problem:
    """A written-out instance. `calls` is the reference; `given` is done before the episode begins.

    `wrong` are plausible mistakes and `equivalent` other right ways, both in place of `calls`.
    `relations`, `free` and `faces` are as in `_geometry_judging.Target`.
    """

    asks: str
    calls: Operations
    wrong: tuple[Operations, ...]
    equivalent: tuple[Operations, ...] = ()
    given: Operations = ()
    relations: tuple[Mapping[str, Any], ...] = ()
    free: bool = False
    faces: bool = False


@record
class Family:
    """Problems of one kind; a variant (JSON data) is a template instance and belongs to one split."""

    id: str
    level: int
    variants: tuple[Any, ...]
    write: Callable[[Random, Any], Problem]

    def name(self, variant: Any) -> str:
        """For example `flange/6,true`."""
        parts = variant if isinstance(variant, (tuple, list)) else [variant]
        return f"{self.id}/{','.join(map(str, parts))}"


def edited(calls: Sequence[Operation], place: int, **arguments: Any) -> Operations:
    """The calls with other arguments at one place."""
    changed = list(calls)
    changed[place] = {**changed[place], "arguments": {**changed[place]["arguments"], **arguments}}
    return tuple(changed)


def without(calls: Sequence[Operation], *places: int) -> Operations:
    """The calls without those at some places (counted from the end where negative)."""
    left_out = {place % len(calls) for place in places}
    return tuple(each for i, each in enumerate(calls) if i not in left_out)


def half(value: float) -> float:
    """Half of it, whole where it is whole."""
    return value // 2 if value % 2 == 0 else value / 2


def point(*values: float) -> str:
    """For example `(10, 0, 2.5)`."""
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def relation(kind: str, a: str, b: str | None, **more: Any) -> dict[str, Any]:
    """As `_geometry_relations` reads it."""
    return {"kind": kind, "a": a, "b": b, **more}
