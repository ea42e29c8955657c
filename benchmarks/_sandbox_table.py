"""What `sandbox` says: a row per question, with what was measured of each side and whether a limit was met."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.report import footer, machine


@dataclass(frozen=True)
class Row:
    """`ours` and `theirs` hold as many rounds of values in `unit`; `other` names their side, empty for none.

    A row that could not be measured says why in `missing`.
    """

    name: str
    unit: str = "ms"
    ours: tuple[tuple[float, ...], ...] = ()
    other: str = ""
    theirs: tuple[tuple[float, ...], ...] = ()
    max_ratio: float | None = None
    max_p50: float | None = None
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """Our p50 over theirs, the median of the rounds: neighbours in time share the machine's load.

        Where one side has other rounds than the other, of all values.
        """
        ours, theirs = p50(self.ours), p50(self.theirs)
        if ours is None or theirs is None:
            return None
        if len(self.ours) != len(self.theirs):
            return ours / theirs
        return median(median(ours) / median(theirs) for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def met(self) -> bool | None:
        """Whether every limit was kept, below zero as above; None where there is none, or no value."""
        pairs = ((self.max_ratio, self.ratio), (self.max_p50, p50(self.ours)))
        kept = [abs(value) <= limit for limit, value in pairs if limit is not None and value is not None]
        return all(kept) if kept else None

    def as_json(self) -> dict[str, Any]:
        sides = {
            name: {"rounds": rounds, "p50": p50(rounds), "min": least(rounds)}
            for name, rounds in (("ours", self.ours), (self.other, self.theirs))
            if name
        }
        limits = {"max_ratio": self.max_ratio, "max_p50": self.max_p50, "met": self.met}
        return {"name": self.name, "unit": self.unit, **sides, "ratio": self.ratio, **limits, "missing": self.missing}


@dataclass(frozen=True)
class SandboxReport:
    """All rows of one run; `notes` are versions."""

    what: str
    rows: tuple[Row, ...]
    notes: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "rows": [row.as_json() for row in self.rows], **machine(), "notes": self.notes}

    def as_text(self) -> str:
        heads = ("p50", "min", "", "p50", "min", "ratio", "limit", "met")
        lines = [f"\n{self.what}", _line("", "", *heads), *map(_told, self.rows)]
        return "\n".join([*lines, *footer(self.notes)])


def p50(rounds: Sequence[Sequence[float]]) -> float | None:
    """The median of all values."""
    values = [value for one in rounds for value in one]
    return median(values) if values else None


def least(rounds: Sequence[Sequence[float]]) -> float | None:
    return min((value for one in rounds for value in one), default=None)


def _told(row: Row) -> str:
    if not row.ours and row.missing:
        return f"{row.name:<46}not available: {row.missing}"
    if row.max_ratio is not None:
        limit = f"{row.max_ratio:.2f}x"
    else:
        limit = "" if row.max_p50 is None else f"{row.max_p50:g} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    met = {True: "yes", False: "NO", None: ""}[row.met]
    ours, theirs = ([_number(p50(rounds)), _number(least(rounds))] for rounds in (row.ours, row.theirs))
    line = _line(row.name, row.unit, *ours, row.other, *theirs, ratio, limit, met)
    return f"{line}  {row.missing}".rstrip()


def _line(name: str, unit: str, *cells: str) -> str:
    widths = (9, 9, 20, 9, 9, 8, 9, 5)
    text = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{name:<46}{unit:<5}{text}".rstrip()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
