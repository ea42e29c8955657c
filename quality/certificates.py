"""From evidence to standing, and the gate that lets only trusted tasks into rollouts.

    any FOUND            -> quarantined, with what was found
    a required probe not CLEAR (missing or UNKNOWN) -> draft: not looked at is not proven
    every required CLEAR -> trusted

Evidence counts only at the task's present content hash and environment version; that of a required probe only at the
probe's present version.
"""

from collections.abc import Iterable, Mapping, Sequence

from assay.errors import DataGateError
from assay.records import Certificate, Evidence, Finding, TaskSpec, TaskState, record

SHOWN = 5


def certify(task: TaskSpec, evidence: Iterable[Evidence], required: Mapping[str, str], issued_at: str) -> Certificate:
    """The certificate that `evidence` earns. `required` maps the ids of the needed probes to their versions.

    Evidence of other sources (rollouts, a person) cannot replace a probe, but what it FOUND quarantines. Of several
    results of one probe FOUND counts before CLEAR, and CLEAR before UNKNOWN, which is only the absence of a result.
    """
    counted = [e for e in evidence if applies(e, task, required)]
    found = [f"{e.probe}: {e.summary}" for e in counted if e.finding is Finding.FOUND]
    open_ = [reason for probe in required if (reason := _open(probe, counted))]
    state = TaskState.QUARANTINED if found else TaskState.DRAFT if open_ else TaskState.TRUSTED
    return Certificate(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        environment_version=task.environment_version,
        state=state,
        reasons=tuple(found or open_),
        evidence_ids=tuple(sorted(e.id for e in counted)),
        issued_at=issued_at,
    )


def applies(evidence: Evidence, task: TaskSpec, required: Mapping[str, str]) -> bool:
    """Whether evidence is of the task as it is now, and of the present version of its probe."""
    same_task = (evidence.task_hash, evidence.environment_version) == (task.content_hash, task.environment_version)
    return same_task and required.get(evidence.probe, evidence.probe_version) == evidence.probe_version


def _open(probe: str, counted: Sequence[Evidence]) -> str:
    """What keeps a required probe from being CLEAR, or nothing."""
    results = [e for e in counted if e.probe == probe]
    if any(e.finding is Finding.CLEAR for e in results):
        return ""
    return f"{probe}: {results[-1].summary}" if results else f"{probe}: never ran on this content"


@record
class Standing:
    """Tasks divided by the certificates given: `refused` says why, task by task."""

    trusted: tuple[TaskSpec, ...]
    refused: Mapping[str, str]


def standing(tasks: Iterable[TaskSpec], certificates: Iterable[Certificate]) -> Standing:
    """Which tasks are trusted at their present content; the latest certificate counts, of equally late ones the
    worst."""
    latest = _latest(certificates)
    trusted: list[TaskSpec] = []
    refused: dict[str, str] = {}
    for task in tasks:
        certificate = latest.get((task.content_hash, task.environment_version))
        if certificate is not None and certificate.state is TaskState.TRUSTED:
            trusted.append(task)
        else:
            refused[task.id] = _why(certificate)
    return Standing(trusted=tuple(trusted), refused=refused)


def require_trusted(tasks: Sequence[TaskSpec], certificates: Iterable[Certificate]) -> None:
    """Raise DataGateError, naming the tasks and why, unless every task is trusted at its present content."""
    refused = standing(tasks, certificates).refused
    if not refused:
        return
    shown = "; ".join(f"{task_id}: {why}" for task_id, why in list(refused.items())[:SHOWN])
    more = f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
    raise DataGateError(
        f"{len(refused)} of {len(tasks)} tasks are not trusted, so they may not be rolled out: {shown}{more}. "
        "Inspect them first, or leave them out."
    )


def _latest(certificates: Iterable[Certificate]) -> dict[tuple[str, str], Certificate]:
    badness = [TaskState.TRUSTED, TaskState.DRAFT, TaskState.QUARANTINED]
    ordered = sorted(certificates, key=lambda c: (c.issued_at, badness.index(c.state)))
    return {(c.task_hash, c.environment_version): c for c in ordered}


def _why(certificate: Certificate | None) -> str:
    if certificate is None:
        return "no certificate for this content"
    return f"{certificate.state} ({'; '.join(certificate.reasons)})"
