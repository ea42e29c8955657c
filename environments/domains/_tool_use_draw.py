"""What the worlds of `tool_use` are made of: names, ids, amounts and days, and what a written-out task holds.

Ids are divided between the splits (a held-out number is a multiple of four), and so are last names: every answer holds
an id, so no answer of one split is one of the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import date, timedelta
from random import Random
from typing import Any, TypeVar

from assay.records import Split, record
from environments.domains._common import side
from environments.domains._record_extraction_text import CITIES, FIRST_NAMES, LAST_NAMES
from environments.domains._tool_use_service import TODAY, Limits

T = TypeVar("T")
Step = dict[str, Any]


@record
class Plan:
    """One request with everything that decides it. `said` fills a phrasing; `steps` are the reference's calls.

    The last step of `steps` and of each of `wrong` is the ending. `facts` must be in the answer (`_tool_use_scoring`).
    `independent` says that the effects may come in any order.
    """

    said: Mapping[str, Any]
    steps: Sequence[Step]
    wrong: Sequence[Sequence[Step]]
    facts: Sequence[Mapping[str, Any]] = ()
    faults: Sequence[Mapping[str, Any]] = ()
    secrets: Sequence[str] = ()
    independent: bool = False


class Draw:
    """Randomness of one task and the rows drawn so far."""

    def __init__(self, rng: Random, split: Split, limits: Limits) -> None:
        self.rng = rng
        self.limits = limits
        self.world: dict[str, dict[str, dict[str, Any]]] = {}
        self._split: Split = split
        self._last_names = side(LAST_NAMES, split, "tool_use")
        self._taken: set[Any] = set()

    def add(self, table: str, prefix: str, /, **values: Any) -> str:
        """A new row; its id."""
        key = self.new_id(prefix)
        self.world.setdefault(table, {})[key] = {"id": key, **values}
        return key

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{self._fresh(lambda: 4 * self.rng.randrange(2500, 25000) + self._remainder())}"

    def person(self) -> str:
        return self._fresh(lambda: f"{self.rng.choice(FIRST_NAMES)} {self.rng.choice(self._last_names)}")

    def city(self) -> str:
        return self._fresh(lambda: self.rng.choice(CITIES))

    def cents(self, low: int, high: int) -> int:
        """An amount of `low` to `high` dollars that occurs once, never a round one."""
        return self._fresh(lambda: 100 * self.rng.randrange(low, high) + self.rng.randrange(1, 100))

    def day(self, low: int, high: int) -> str:
        """A date `low` to `high` days from today that occurs once."""
        return self._fresh(lambda: day(self.rng.randint(low, high)))

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def some(self, options: Sequence[T], num: int) -> list[T]:
        return self.rng.sample(list(options), num)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.some(options, len(options))

    def _remainder(self) -> int:
        return 0 if self._split == "heldout" else self.rng.randrange(1, 4)

    def _fresh(self, make: Any) -> Any:
        while (value := make()) in self._taken:
            continue
        self._taken.add(value)
        return value


def day(offset: int) -> str:
    """The date so many days from today.

    >>> day(-14)
    '2031-04-30'
    """
    return (date.fromisoformat(TODAY) + timedelta(days=offset)).isoformat()


def dollars(cents: int) -> str:
    """
    >>> dollars(123405)
    '1234.05'
    """
    return f"{cents // 100}.{cents % 100:02d}"


def step(tool: str, /, **arguments: Any) -> Step:
    """A call; effects get their key later, equal calls the same one."""
    return {"name": tool, "arguments": arguments}


def finish(answer: str = "Done.") -> Step:
    return step("finish", answer=answer)


def refuse(reason: str, subject: str) -> Step:
    return step("refuse", reason=reason, subject=subject)


@record
class Scenario:
    """A kind of request; a template instance is one of its phrasings under one set of limits."""

    id: str
    service: str
    level: int
    write: Any
    phrasings: tuple[str, ...] = field(default_factory=tuple)
