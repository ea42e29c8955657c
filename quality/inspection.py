"""Tasks in, certificates out: every task climbs a ladder of probes, from the cheap to the expensive.

    static_contract -> oracle_accepted, noop_rejected -> junk, wrong, equivalent -> repetitions_agree -> certificate
                                 └── the first proof of a defect ends the climb

Finding nothing is believed only if every probe of the ladder could look.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.config import InspectionConfig
from assay.errors import unknown_choice
from assay.ids import derive_seed
from assay.progress import emit
from assay.records import Certificate, Evidence, Finding, TaskSpec, TaskState
from assay.registry import build_plugin, known_plugins
from environments.base import Domain
from environments.sandboxes.base import Backend
from quality.certificates import applies, certify
from quality.probes.base import Probe
from rollouts.concurrency import run_all, utc_now


class Inspected(NamedTuple):
    """What inspection leaves of one task."""

    task: TaskSpec
    evidence: list[Evidence]
    certificate: Certificate


def ladder(config: InspectionConfig) -> list[Probe]:
    """Every probe there is, the cheap ones first; all of them are required."""
    options = {"repetitions_agree": {"repetitions": config.repetitions}}
    probes = [build_plugin("probe", probe_id, options.get(probe_id)) for probe_id in known_plugins("probe")]
    return sorted(probes, key=lambda probe: (probe.level, probe.id))


async def inspect(
    tasks: Sequence[TaskSpec],
    domain_of: Mapping[str, Domain],
    sandboxes: Backend,
    config: InspectionConfig,
    *,
    known: Iterable[Evidence] = (),
    max_concurrency: int = 8,
    probes: Sequence[Probe] | None = None,
    on_done: Callable[[Inspected], None] | None = None,
    now: Callable[[], str] = utc_now,
) -> list[Inspected]:
    """One result per task, in order. The seed of each task depends on `config.seed` and its content only.

    `known` is evidence of earlier inspections: what it settles for a task's present content is not looked at again,
    and the certificate rests on it too. `Inspected.evidence` is the new evidence only. `probes` replaces the ladder.
    Raises ConfigurationError for an unknown domain, before any work.
    """
    for task in tasks:
        if task.domain not in domain_of:
            raise unknown_choice("domain", task.domain, domain_of)
    steps = list(probes) if probes is not None else ladder(config)
    required = {probe.id: probe.version for probe in steps}
    known = list(known)
    slots = asyncio.Semaphore(max_concurrency)
    tell = _Reporter(len(tasks), on_done)

    async def one(task: TaskSpec) -> Inspected:
        async with slots:
            before = [e for e in known if applies(e, task, required)]
            seed = derive_seed(config.seed, "inspect", task.content_hash)
            evidence = await _climb(task, domain_of[task.domain], sandboxes, _unsettled(steps, before), seed)
            inspected = Inspected(task, evidence, certify(task, [*before, *evidence], required, now()))
            tell(inspected)
            return inspected

    return await run_all(one(task) for task in tasks)


def _unsettled(probes: Sequence[Probe], known: Sequence[Evidence]) -> list[Probe]:
    """The probes still to run: none once a defect is proven, else those that are not clear yet."""
    if any(e.finding is Finding.FOUND for e in known):
        return []
    clear = {e.probe for e in known if e.finding is Finding.CLEAR}
    return [probe for probe in probes if probe.id not in clear]


async def _climb(
    task: TaskSpec, domain: Domain, sandboxes: Backend, probes: Sequence[Probe], seed: int
) -> list[Evidence]:
    evidence: list[Evidence] = []
    for probe in probes:
        evidence.append(await probe.run(task, domain, sandboxes, seed))
        if evidence[-1].finding is Finding.FOUND:
            break
    return evidence


class _Reporter:
    def __init__(self, num_total: int, on_done: Callable[[Inspected], None] | None) -> None:
        self.num_total = num_total
        self.num_by_state = dict.fromkeys(TaskState, 0)
        self.on_done = on_done

    def __call__(self, inspected: Inspected) -> None:
        certificate = inspected.certificate
        self.num_by_state[certificate.state] += 1
        if self.on_done:
            self.on_done(inspected)
        emit(
            "inspect",
            done=sum(self.num_by_state.values()),
            total=self.num_total,
            **{state.value: num for state, num in self.num_by_state.items()},
            task_id=certificate.task_id,
            domain=certificate.domain,
            state=certificate.state.value,
            reasons=certificate.reasons,
        )
