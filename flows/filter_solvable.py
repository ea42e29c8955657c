"""Keep the tasks the present policy sometimes passes: the others give a group no signal."""

from prefect import flow

from assay.config import StageConfig
from tasks.artifacts import table
from tasks.names import stage_name
from tasks.roll_out import roll_out, verify_plan
from tasks.solvability import estimate_solvability, plan_sampling
from tasks.stages import opened_stage


@flow(name="filter_solvable", flow_run_name=stage_name)
async def filter_solvable(config: StageConfig) -> int:
    """Estimate every trusted training task; returns how many are kept."""
    async with opened_stage(config) as stage:
        plan = plan_sampling(stage)
        if plan is not None:
            await roll_out(stage.run, plan)
            await verify_plan(stage.run, plan)
        counts = await estimate_solvability(stage)
        await table("solvability", counts, "Training tasks by domain: in, kept, and the band of the rest")
        return sum(row["kept"] for row in counts)
