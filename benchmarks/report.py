"""Two sides measured in turn: medians, the ratio round by round, and the machine they ran on."""

import datetime
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from assay.settings import settings


@dataclass(frozen=True)
class Round:
    """One side's work in one round: seconds by phase, and the tokens it sampled."""

    phases_s: dict[str, float]
    num_tokens: int

    @property
    def total_s(self) -> float:
        return sum(self.phases_s.values())


@dataclass(frozen=True)
class Comparison:
    """`rounds` holds as many rounds of each side; `ours` and `other` name the sides, `what` says what was measured."""

    what: str
    ours: str
    other: str
    rounds: dict[str, list[Round]]
    notes: dict[str, str]

    @property
    def ratios(self) -> list[float]:
        """How many times faster our side was per token, round by round: neighbours in time share the machine's load."""
        pairs = zip(self.rounds[self.ours], self.rounds[self.other], strict=True)
        return [(theirs.total_s / theirs.num_tokens) / (ours.total_s / ours.num_tokens) for ours, theirs in pairs]

    def as_json(self) -> dict[str, Any]:
        sides = {
            name: {"rounds": [asdict(r) for r in rounds], "median_s": median(r.total_s for r in rounds)}
            for name, rounds in self.rounds.items()
        }
        ratio = {"rounds": self.ratios, "median": median(self.ratios)}
        return {"what": self.what, "sides": sides, "ratio": ratio, **machine(), "notes": self.notes}

    def as_text(self) -> str:
        return table(self)


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": settings().num_threads,
        "load": os.getloadavg()[0],
        "versions": {"python": platform.python_version()} | _versions("torch", "transformers"),
    }


def table(comparison: Comparison) -> str:
    """The comparison as text."""
    phases = list(comparison.rounds[comparison.ours][0].phases_s)
    lines = [f"\n{comparison.what}", f"{'':<24}{'s':>9}{'tok/s':>9}" + "".join(f"{phase:>11}" for phase in phases)]
    for name, rounds in comparison.rounds.items():
        seconds = median(r.total_s for r in rounds)
        speed = median(r.num_tokens / r.total_s for r in rounds)
        shares = (median(r.phases_s[phase] / r.total_s for r in rounds) for phase in phases)
        lines.append(f"{name:<24}{seconds:>9.2f}{speed:>9.0f}" + "".join(f"{share:>11.0%}" for share in shares))
    low, high = min(comparison.ratios), max(comparison.ratios)
    lines.append(
        f"{comparison.ours} is {median(comparison.ratios):.2f} times as fast per token (median of "
        f"{len(comparison.ratios)} rounds, {low:.2f} to {high:.2f})"
    )
    return "\n".join([*lines, *footer(comparison.notes)])


def footer(notes: dict[str, str]) -> list[str]:
    """Two lines: when, where and with which versions."""
    facts = machine()
    versions = ", ".join(f"{name} {number}" for name, number in (facts["versions"] | notes).items())
    where = f"{facts['date']}, {facts['processor']}, {facts['cores']} cores, {facts['threads']} threads per side, "
    return [where, f"load {facts['load']:.1f}; {versions}"]


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
