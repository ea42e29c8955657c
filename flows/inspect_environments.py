"""Prove tasks before anything learns from them: every new or changed task climbs the ladder of probes."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.catalogue import catalogue_of
from tasks.inspect_tasks import inspect_tasks, inspection_counts
from tasks.names import stage_name
from tasks.stages import opened_stage


@flow(name="inspect_environments", flow_run_name=stage_name)
async def inspect_environments(config: StageConfig) -> int:
    """Certify the config's tasks; returns how many are trusted."""
    async with opened_stage(config) as stage:
        await inspect_tasks(stage.run, stage.tasks)
        await table("domains", catalogue_of(stage.run), "The domains of this run")
        counts = inspection_counts(stage.run, stage.tasks)
        await table("inspection", counts, "Tasks by domain: in, kept, dropped by reason")
        return sum(row["kept"] for row in counts)
