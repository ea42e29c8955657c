"""Measure a policy version on the held-out tasks: greedy, per domain, with a 95 % interval."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.evaluate import score
from tasks.names import stage_name
from tasks.plans import plan_evaluation
from tasks.roll_out import roll_out, verify_plan
from tasks.stages import opened_stage


@flow(name="evaluate_policy", flow_run_name=stage_name)
async def evaluate_policy(config: StageConfig) -> dict[str, float]:
    """Pass rate by domain."""
    async with opened_stage(config) as stage:
        plan = plan_evaluation(stage)
        await roll_out(stage.run, plan)
        await verify_plan(stage.run, plan)
        rows = await score(stage.run, plan)
        await table("held-out", rows, f"Held-out results of {stage.policy.name}")
        return {row["domain"]: row["pass_rate"] for row in rows}
