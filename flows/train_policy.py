"""Train one policy version on one iteration's verdicts, after the data gate; iteration 0 is the warm start."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.counts import batch_counts
from tasks.names import stage_name
from tasks.plans import plan_iteration
from tasks.stages import opened_stage
from tasks.train import check_data, update_policy


@flow(name="train_policy", flow_run_name=stage_name)
async def train_policy(config: StageConfig) -> str:
    """Id of the policy that comes out: a new version, or the same when no group carried signal."""
    async with opened_stage(config) as stage:
        plan = plan_iteration(stage)
        await check_data(stage.run, plan)
        policy_id = await update_policy(stage, plan)
        await table("batch", batch_counts(stage.run, plan), "Trajectories by domain: in, kept, dropped by reason")
        return policy_id
