"""The whole chain: inspect, then per iteration filter, roll out, verify, train; evaluate before, between and after.

    inspect -> evaluate v0 -> [0: demonstrations -> verify -> warm start -> evaluate]
            -> [i: filter -> collect -> verify -> train -> evaluate now and then] x iterations -> summary

Run again after an interruption, it goes on where it stopped: everything it asks for is looked up in the store first.
"""

from prefect import flow

from assay.config import PostTrainConfig, StageConfig
from flows.collect_rollouts import collect_rollouts
from flows.evaluate_policy import evaluate_policy
from flows.filter_solvable import filter_solvable
from flows.inspect_environments import inspect_environments
from flows.train_policy import train_policy
from flows.verify_rollouts import verify_rollouts
from tasks.finish import finish_run
from tasks.names import run_name
from tasks.stages import base_of, due_for_evaluation, is_trained, iterations_to_do, opened_run, policy_after


@flow(name="post_train", flow_run_name=run_name, log_prints=False)
async def post_train(config: PostTrainConfig) -> str:
    """Post-train a policy on proven tasks; returns the run's id, by which everything is found in the store."""
    async with opened_run(config) as run:

        def stage(iteration: int, policy: str = "") -> StageConfig:
            return StageConfig(run=config, run_id=run.run_id, iteration=iteration, policy=policy)

        await inspect_environments(stage(0))
        await evaluate_policy(stage(0, base_of(run)))
        for iteration in iterations_to_do(run):
            before = policy_after(run, iteration - 1)
            if not is_trained(run, iteration):
                if iteration > 0:
                    await filter_solvable(stage(iteration, before))
                await collect_rollouts(stage(iteration, before))
                await verify_rollouts(stage(iteration, before))
                await train_policy(stage(iteration, before))
            if due_for_evaluation(run, iteration):
                await evaluate_policy(stage(iteration, policy_after(run, iteration)))
        await finish_run(run)
        return run.run_id
