"""Solvability as Prefect tasks: which trusted training tasks are worth a group under the present policy.

Outcomes of the policy's own rollouts and of its recent ancestors' count; a domain of which nothing recent is known is
sampled first. Old outcomes expire, so a task that was too hard or saturated comes back as unknown.
"""

from collections.abc import Sequence
from typing import Any

from prefect import task

from assay.progress import emit
from assay.records import Band, SolvabilityEstimate, TaskSpec
from quality.solvability import estimate
from storage.rows import estimates_from, solvability_rows
from tasks.inspect_tasks import trusted
from tasks.load_tasks import tasks_at
from tasks.roll_out import RolloutPlan
from tasks.stages import Stage
from tasks.transient import RETRY
from tasks.workshop import Workshop, workshop

_COUNTS = """
SELECT task_hash, count(*) FILTER (passed) AS num_passed, count(*) AS num_valid
FROM trajectories
WHERE valid AND temperature > 0 AND purpose IN ('train', 'solvability')
  AND first_policy = last_policy AND first_policy IN (SELECT unnest(?::VARCHAR[]))
  AND task_hash IN (SELECT unnest(?::VARCHAR[]))
GROUP BY task_hash
"""


def plan_sampling(stage: Stage) -> RolloutPlan | None:
    """The rollouts a first estimate needs, or None when every domain has recent outcomes."""
    shop, config = workshop(stage.config), stage.config
    specs = candidates(shop, stage)
    counts = outcomes(shop, stage, specs)
    fresh: list[str] = []
    for domain in shop.domains:
        mine = [spec.content_hash for spec in specs if spec.domain == domain]
        if not any(task_hash in counts for task_hash in mine):
            fresh += mine[: config.solvability.num_tasks]
    if not fresh:
        return None
    return RolloutPlan(
        purpose="solvability",
        iteration=stage.iteration,
        policy=stage.policy,
        tasks=stage.tasks,
        task_hashes=tuple(fresh),
        group_size=config.solvability.samples_per_task,
        sampling=stage.sampling(),
    )


@task(name="estimate", task_run_name="estimate {stage.policy.name} i{stage.iteration}", **RETRY)
async def estimate_solvability(stage: Stage) -> list[dict[str, Any]]:
    """Commit one estimate per trusted training task; returns counts per domain and band, for the artifact."""
    shop = workshop(stage.config)
    specs = candidates(shop, stage)
    estimates = estimate(specs, stage.policy.id, outcomes(shop, stage, specs), stage.config.solvability)
    versions = {name: domain.version for name, domain in shop.domains.items()}
    rows = solvability_rows(estimates, stage.run.run_id, stage.iteration, versions)
    shop.store.commit("solvability", rows, key=_key(stage), run_id=stage.run.run_id)
    counts = [_counts(domain, estimates) for domain in shop.domains]
    for row in counts:
        emit("solvability", done=row["in"], total=row["in"], **row)
    return counts


def worth_training(stage: Stage) -> tuple[list[TaskSpec], list[SolvabilityEstimate]]:
    """The tasks the stored estimates keep (trainable or unknown), and those estimates."""
    shop = workshop(stage.config)
    specs = candidates(shop, stage)
    ref = shop.store.find("solvability", _key(stage))
    estimates = estimates_from(shop.store.read(ref)) if ref else []
    dropped = {e.task_hash for e in estimates if e.band in (Band.SATURATED, Band.TOO_HARD)}
    return [spec for spec in specs if spec.content_hash not in dropped], estimates


def candidates(shop: Workshop, stage: Stage) -> list[TaskSpec]:
    """Trusted training tasks."""
    return trusted(shop, [spec for spec in tasks_at(shop, stage.tasks) if spec.split == "train"])


def outcomes(shop: Workshop, stage: Stage, specs: Sequence[TaskSpec]) -> dict[str, tuple[int, int]]:
    """(passed, valid) rollouts by task hash, of the policy and its `max_age` nearest ancestors."""
    lineage = [policy.id for policy in shop.ledger.ancestors(stage.policy.id)]
    recent = lineage[: stage.config.solvability.max_age + 1]
    rows = shop.catalog().sql(_COUNTS, [recent, [spec.content_hash for spec in specs]]).pl()
    return {task_hash: (passed, valid) for task_hash, passed, valid in rows.iter_rows()}


def _key(stage: Stage) -> str:
    return f"{stage.run.run_id}/{stage.iteration}/{stage.policy.id}"


def _counts(domain: str, estimates: Sequence[SolvabilityEstimate]) -> dict[str, Any]:
    bands = [e.band for e in estimates if e.domain == domain]
    kept = sum(band in (Band.TRAINABLE, Band.UNKNOWN) for band in bands)
    return {"domain": domain, "in": len(bands), "kept": kept, **{band.value: bands.count(band) for band in Band}}
