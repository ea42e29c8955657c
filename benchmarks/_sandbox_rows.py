"""From samples to rows: which is held against which, and within what limit."""

from collections.abc import Awaitable, Callable
from typing import Any

from assay.errors import AssayError
from benchmarks._sandbox_others import PEERS
from benchmarks._sandbox_ours import Series
from benchmarks._sandbox_soak import COUNTED
from benchmarks._sandbox_table import Row

# name, ours, other side, its samples, limits
COMPARED: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("create, run true, destroy", "ours true", "bwrap", "bwrap true", {"max_ratio": 1.15}),
    ("  against less than a sandbox", "ours true", "bwrap, no work dir", "bwrap_bare true", {}),
    ("create, run python3, destroy", "ours print", "bwrap", "bwrap print", {}),
    *(("  without isolation", "ours print", peer, f"{peer} print", {}) for peer in PEERS),
    ("  without isolation", "ours print", "subprocess", "bare print", {}),
    ("create, first command of a session", "session first", "swe-rex", "swe-rex session first", {}),
    ("a session's next command", "session", "swe-rex", "swe-rex session", {"max_p50": 3.0}),
    ("taking a sandbox that is ready", "take", "", "", {"max_p50": 5.0}),
    ("taking a sandbox from a pool", "pool", "", "", {"max_p50": 5.0}),
    ("reset, 20,000 files, 40 changed", "reset", "cp -r", "cp", {"max_p50": 5.0}),
    ("snapshot and restore, 20,000 files", "snapshot", "", "", {"max_p50": 10.0}),
]


class Samples:
    """Values by name and round, times in seconds; for what could not be measured, the reason."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[list[float]]] = {}
        self.missing: dict[str, str] = {}

    async def take(self, names: str, measure: Callable[[], Awaitable[Series]], *, keep: bool = True) -> None:
        """One round of `names` (divided by commas); what has been found missing is not asked for again."""
        if names.split(",")[0] in self.missing:
            return
        try:
            series = await measure()
        except AssayError as error:
            self.missing |= dict.fromkeys(names.split(","), str(error).splitlines()[0])
            return
        for name, values in series.items() if keep else ():
            self.rounds.setdefault(name, []).append(values)

    def rows(self) -> list[Row]:
        """The comparisons, the totals and what was left behind."""
        rows = [self._row(*compared) for compared in COMPARED]
        ours, theirs = self._values("rate"), self._values("bwrap rate")
        rows.append(Row("lifecycles on all cores", "per s", ours, "bwrap", theirs))
        rows.append(Row("memory of an idle session", "MiB", self._values("memory"), missing=self._why("memory")))
        left = (Row(f"left behind: {name}", "", self._values(name), max_p50=0) for name in COUNTED)
        return [*rows, *left]

    def _row(self, name: str, ours: str, other: str, theirs: str, limits: dict[str, Any]) -> Row:
        values = (self._values(ours, 1e3), self._values(theirs, 1e3))
        return Row(name, "ms", values[0], other, values[1], missing=self._why(ours) or self._why(theirs), **limits)

    def _values(self, name: str, factor: float = 1.0) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(value * factor for value in values) for values in self.rounds.get(name, []))

    def _why(self, name: str) -> str:
        return self.missing.get(name, "")
