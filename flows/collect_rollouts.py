"""Roll out one iteration's groups: of the oracle in iteration 0 (demonstrations), of the policy from then on."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.counts import rollout_counts
from tasks.names import stage_name
from tasks.plans import plan_iteration
from tasks.roll_out import roll_out
from tasks.stages import opened_stage


@flow(name="collect_rollouts", flow_run_name=stage_name)
async def collect_rollouts(config: StageConfig) -> int:
    """Do what the store lacks of the iteration's rollouts; returns how many were done now."""
    async with opened_stage(config) as stage:
        plan = plan_iteration(stage)
        num_done = await roll_out(stage.run, plan)
        await table("rollouts", rollout_counts(stage.run, plan), "Rollouts by domain: in, kept, dropped by cause")
        return num_done
