"""Judge one iteration's trajectories, each in a place the policy never touched."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.counts import verdict_counts
from tasks.names import stage_name
from tasks.plans import plan_iteration
from tasks.roll_out import verify_plan
from tasks.stages import opened_stage


@flow(name="verify_rollouts", flow_run_name=stage_name)
async def verify_rollouts(config: StageConfig) -> int:
    """Judge what has no verdict of the current verifier; returns how many were judged now."""
    async with opened_stage(config) as stage:
        plan = plan_iteration(stage)
        num_judged = await verify_plan(stage.run, plan)
        await table("verdicts", verdict_counts(stage.run, plan), "Verdicts by domain: in, kept, dropped by cause")
        return num_judged
