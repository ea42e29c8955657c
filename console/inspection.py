"""`assay inspect`: prove tasks here and now, and show the ladder of probes as a table.

For the author of a domain: nothing is recorded. The flow `inspect_environments` records evidence and certificates.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.config import InspectionConfig
from assay.errors import ConfigurationError, SandboxUnavailable
from assay.records import Evidence, Finding, TaskSpec, TaskState
from assay.registry import build_plugin, known_plugins
from console.books import is_planted
from console.output import one_line, put, put_json, say, table
from console.runs import Row
from environments.base import Domain, take
from environments.catalogue import build_domain

if TYPE_CHECKING:
    from quality.inspection import Inspected

WORDS = {Finding.CLEAR: "ok", Finding.FOUND: "DEFECT", Finding.UNKNOWN: "unknown"}


def inspect(domains: Sequence[str], *, num: int, seed: int, sandbox: str, as_json: bool) -> int:
    """Inspect `num` tasks per split of each domain and its planted defects; returns the exit code.

    1 when a task that should be sound is not proven, or a planted defect is: either way somebody must act.
    """
    chosen = dict(map(chosen_domain, domains)) if domains else _own_domains()
    for name, domain in chosen.items():
        for left_out in domain.left_out():
            say(f"{name}: left out: {one_line(left_out.line())}")
    backend = build_plugin("sandbox", sandbox)
    tasks = [task for domain in chosen.values() for task in tasks_of(domain, num, seed)]
    say(f"inspecting {len(tasks)} tasks of {', '.join(chosen)} in {sandbox}")
    results = asyncio.run(_inspect(tasks, chosen, backend, seed))
    views = [view(result) for result in results]
    if as_json:
        put_json(views)
    else:
        put(ladder_table(views))
        for line in fault_lines(views):
            put(line)
    return 1 if any(wrong(each) for each in views) else 0


def _own_domains() -> dict[str, Domain]:
    """Our own families; one whose package is missing is told and left out."""
    found = {}
    for name in known_plugins("domain"):
        try:
            found[name] = build_domain(name)
        except ConfigurationError as error:
            say(f"{name}: left out: {one_line(error)}")
    return found


def chosen_domain(wanted: str) -> tuple[str, Domain]:
    """A domain by its name, or a folder of task directories."""
    if not Path(wanted).is_dir():
        return wanted, build_domain(wanted)
    name = f"harbor/{Path(wanted).resolve().name}"
    return name, build_domain(name, {"path": str(Path(wanted).resolve())})


def tasks_of(domain: Domain, num: int, seed: int) -> list[TaskSpec]:
    """The first tasks of both splits, then the planted defects."""
    return [*take(domain, "train", num, seed), *take(domain, "heldout", num, seed), *domain.defective_tasks(seed)]


def view(inspected: "Inspected") -> Row:
    """One task's standing and evidence in plain values."""
    return {
        "task_id": inspected.task.id,
        "domain": inspected.task.domain,
        "task_hash": inspected.task.content_hash,
        "planted": is_planted(inspected.task.id),
        "state": inspected.certificate.state.value,
        "reasons": list(inspected.certificate.reasons),
        "evidence": [_evidence(evidence) for evidence in inspected.evidence],
    }


def wrong(each: Row) -> bool:
    """A planted defect must be quarantined, any other task trusted."""
    return each["state"] != (TaskState.QUARANTINED if each["planted"] else TaskState.TRUSTED)


def ladder_table(views: Sequence[Row]) -> str:
    """A row per task, a column per probe in the order they ran; `-` where the climb had ended."""
    probes = list(dict.fromkeys(e["probe"] for each in views for e in each["evidence"]))
    rows = []
    for each in views:
        found = {e["probe"]: WORDS[Finding(e["finding"])] for e in each["evidence"]}
        note = "planted" if each["planted"] else ""
        rows.append([each["task_id"], *(found.get(probe, "-") for probe in probes), each["state"], note])
    return table(["task", *probes, "state", ""], rows)


def fault_lines(views: Sequence[Row]) -> list[str]:
    """For each task that is not proven: what was found and what was tried, then the count."""
    lines = [""]
    for each in views:
        if each["state"] != TaskState.TRUSTED:
            lines.append(f"{one_line(each['task_id'])}: {one_line('; '.join(each['reasons']))}")
            tried = [e["tried"] for e in each["evidence"] if e["finding"] != Finding.CLEAR]
            lines += [f"  tried: {one_line(value, 160)}" for value in tried]
    faults = [each["task_id"] for each in views if wrong(each)]
    caught = sum(each["planted"] and not wrong(each) for each in views)
    lines.append(f"{len(views)} tasks, {caught} planted defects caught, {len(faults)} tasks need somebody to act")
    return lines


async def _inspect(tasks: list[TaskSpec], domains: dict[str, Domain], backend: Any, seed: int) -> "list[Inspected]":
    from quality.inspection import inspect as climb

    report = await backend.probe()
    if not report.works:
        raise SandboxUnavailable(f"The sandbox {report.backend} does not work here: {report.detail}")
    return await climb(tasks, domains, backend, InspectionConfig.model_validate({"seed": seed}))


def _evidence(evidence: Evidence) -> Row:
    return {
        "probe": evidence.probe,
        "finding": evidence.finding.value,
        "summary": evidence.summary,
        "tried": dict(evidence.tried),
        "wall_s": evidence.wall_s,
    }
