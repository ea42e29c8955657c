"""Inspection as Prefect tasks: run the ladder over what is new or changed, certify, keep the evidence."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from prefect import task

from assay.records import Certificate, DatasetRef, Evidence, TaskSpec, TaskState
from quality.certificates import certify, standing
from quality.inspection import Inspected, inspect, ladder
from storage.rows import certificate_rows, certificates_from, evidence_from, evidence_rows
from tasks.artifacts import progress
from tasks.load_tasks import tasks_at
from tasks.run import RunRef, now, timed
from tasks.transient import RETRY
from tasks.workshop import Workshop, workshop
from tasks.writer import ChunkWriter

CHUNK = 64


@task(name="inspect", task_run_name="inspect {run.name}", **RETRY)
async def inspect_tasks(run: RunRef, tasks: DatasetRef) -> int:
    """Inspect the tasks whose evidence does not settle their standing; returns how many were inspected now."""
    shop = workshop(run.config)
    specs = tasks_at(shop, tasks)
    known = evidence_from(_rows_of(shop, "evidence", specs))
    todo = undecided(run, specs, known)
    if not todo:
        return 0
    writer: ChunkWriter[Inspected] = ChunkWriter(_committer(shop, run), lambda i: i.certificate.id, CHUNK)
    async with (
        timed(shop.store, run, "inspect", 0) as figures,
        progress("inspect", "inspection", f"Inspection of {len(todo)} tasks"),
    ):
        try:
            done = await inspect(
                todo, shop.domains, shop.sandboxes, run.config.inspection, known=known, on_done=writer.add
            )
        finally:
            await writer.finish()
        figures["num_inspected"] = len(done)
    return len(done)


def undecided(run: RunRef, tasks: Sequence[TaskSpec], known: Sequence[Evidence]) -> list[TaskSpec]:
    """Tasks that the known evidence leaves in draft: new, changed, or never fully looked at."""
    required = {probe.id: probe.version for probe in ladder(run.config.inspection)}
    by_hash: dict[str, list[Evidence]] = {}
    for evidence in known:
        by_hash.setdefault(evidence.task_hash, []).append(evidence)
    standings = (certify(spec, by_hash.get(spec.content_hash, []), required, now()) for spec in tasks)
    return [spec for spec, standing in zip(tasks, standings, strict=True) if standing.state is TaskState.DRAFT]


def certificates_of(shop: Workshop, tasks: Sequence[TaskSpec]) -> list[Certificate]:
    """Every certificate issued for these tasks' content."""
    return certificates_from(_rows_of(shop, "certificates", tasks))


def trusted(shop: Workshop, tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """The tasks that may be rolled out."""
    return list(standing(tasks, certificates_of(shop, tasks)).trusted)


def _rows_of(shop: Workshop, table: str, tasks: Sequence[TaskSpec]) -> pl.DataFrame:
    query = f"SELECT * FROM {table} WHERE task_hash IN (SELECT unnest(?::VARCHAR[]))"
    return shop.catalog().sql(query, [[spec.content_hash for spec in tasks]]).pl()


def _committer(shop: Workshop, run: RunRef) -> Callable[[Sequence[Any], str], None]:
    def commit(done: Sequence[Inspected], digest: str) -> None:
        evidence = [e for inspected in done for e in inspected.evidence]
        certificates = [inspected.certificate for inspected in done]
        shop.store.commit("evidence", evidence_rows(evidence, run.run_id), key=digest, run_id=run.run_id)
        shop.store.commit("certificates", certificate_rows(certificates, run.run_id), key=digest, run_id=run.run_id)

    return commit


def inspection_counts(run: RunRef, tasks: DatasetRef) -> list[dict[str, Any]]:
    """Per domain: tasks in, trusted, and the others with their reasons, for the artifact."""
    shop = workshop(run.config)
    specs = tasks_at(shop, tasks)
    result = standing(specs, certificates_of(shop, specs))
    kept = {spec.id for spec in result.trusted}
    rows = []
    for domain in shop.domains:
        mine = [spec.id for spec in specs if spec.domain == domain]
        dropped = "; ".join(f"{i}: {result.refused[i]}" for i in mine if i not in kept)
        rows.append({"domain": domain, "in": len(mine), "kept": sum(i in kept for i in mine), "dropped": dropped})
    return rows
