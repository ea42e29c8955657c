"""What domains cost: tasks generated per second, and verifications per second of the reference's submission.

Every family of our own, and one set of each format that is installed. Verification is timed one after the other, so it
is what a single worker does; `sandboxes` says how many of them one verification took.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from assay.errors import AssayError, SandboxUnavailable
from assay.registry import build_plugin, known_plugins
from benchmarks.report import footer, machine
from benchmarks.workload import Workload
from environments.base import Domain, Outcome, play, take
from environments.catalogue import build_domain, known_domains
from quality.probes.base import CountingBackend

NUM_TASKS, NUM_VERIFIED = 20, 6


@dataclass(frozen=True)
class Cost:
    """Of one domain: rates per second by round, and sandboxes per verification; `missing` says why there are none."""

    domain: str
    generated: tuple[float, ...] = ()
    verified: tuple[float, ...] = ()
    num_sandboxes: float = 0.0
    missing: str = ""


@dataclass(frozen=True)
class Costs:
    """All domains of one run."""

    rows: tuple[Cost, ...]

    def as_json(self) -> dict[str, Any]:
        rows = [vars(row) for row in self.rows]
        return {"what": "domains", "rows": rows, **machine()}

    def as_text(self) -> str:
        lines = [f"\n{'tasks and verifications per second':<44}{'generated':>12}{'verified':>12}{'sandboxes':>12}"]
        return "\n".join([*lines, *map(_line, self.rows), *footer({})])


async def run(_: Workload, steps: int) -> Costs:
    """`steps` rounds per domain after one that warms up. Raises SandboxUnavailable where nothing isolates."""
    backend = CountingBackend(build_plugin("sandbox", "bubblewrap"))
    found = await backend.probe()
    if not found.works:
        raise SandboxUnavailable(found.detail)
    rows = [await _measured(name, backend, steps) for name in _chosen()]
    backend.close()
    return Costs(tuple(rows))


def _chosen() -> list[str]:
    """Our own families, and the first set of each format."""
    firsts: dict[str, str] = {}
    for name in known_domains():
        firsts.setdefault(name.partition("/")[0], name)
    return [*known_plugins("domain"), *(name for name in firsts.values() if "/" in name)]


async def _measured(name: str, backend: CountingBackend, steps: int) -> Cost:
    try:
        domain = build_domain(name)
        generated = [_generated_per_s(domain, seed=step) for step in range(steps + 1)]
        verified = [await _verified(domain, backend, seed=step) for step in range(steps + 1)]
        rates = tuple(rate for rate, _ in verified[1:])
        return Cost(name, tuple(generated[1:]), rates, verified[-1][1])
    except AssayError as error:
        return Cost(name, missing=str(error).splitlines()[0])


def _generated_per_s(domain: Domain, seed: int) -> float:
    began = time.perf_counter()
    made = take(domain, "train", NUM_TASKS, seed)
    return len(made) / (time.perf_counter() - began)


async def _verified(domain: Domain, backend: CountingBackend, seed: int) -> tuple[float, float]:
    """Verifications per second, and sandboxes per verification."""
    tasks = take(domain, "train", NUM_VERIFIED, seed)
    outcomes: list[Outcome] = [await play(domain, task, domain.solutions(task).oracle, backend) for task in tasks]
    began, before = time.perf_counter(), backend.num_created
    for task, outcome in zip(tasks, outcomes, strict=True):
        await domain.verify(task, outcome, backend)
    seconds = time.perf_counter() - began
    return len(tasks) / seconds, (backend.num_created - before) / len(tasks)


def _line(row: Cost) -> str:
    if row.missing:
        return f"{row.domain:<44}not measured: {row.missing}"
    rates = f"{median(row.generated):>12,.1f}{median(row.verified):>12,.1f}"
    return f"{row.domain:<44}{rates}{row.num_sandboxes:>12.1f}"
