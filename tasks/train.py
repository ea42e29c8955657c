"""Training as Prefect tasks: gate the data, make the batch, update, publish, record the lineage."""

import asyncio
from collections.abc import Sequence

from prefect import task

from assay.ids import short_id
from assay.progress import emit
from assay.records import PolicyVersion, TrainingBatch, VerifiedTrajectory
from quality.expectations import gate
from rollouts.images import images_in
from tasks.inspect_tasks import trusted
from tasks.lookup import rewards_of, trajectories_of, turns_of, verified
from tasks.policies import prune_weights, run_dir, weights_dir
from tasks.roll_out import RolloutPlan
from tasks.run import RunRef, now, timed
from tasks.stages import Stage
from tasks.transient import RETRY
from tasks.workshop import Workshop, workshop
from training.backends.base import TrainResult
from training.samples import Kind, make_batch


@task(name="gate", task_run_name="gate i{plan.iteration}", **RETRY)
async def check_data(run: RunRef, plan: RolloutPlan) -> list[str]:
    """The rules the plan's rollouts keep, as sentences. Raises DataGateError, naming rows, when one is broken."""
    shop = workshop(run.config)
    ids = [request.id for request in plan.requests(shop, run)]
    if not ids:
        return []
    specs = plan.specs(shop)
    async with timed(shop.store, run, "gate", plan.iteration) as figures:
        kept = await asyncio.to_thread(
            gate,
            trajectories_of(shop, ids),
            rewards_of(shop, ids),
            turns_of(shop, ids),
            policies=[plan.policy.id],
            trusted=[spec.content_hash for spec in trusted(shop, specs)],
            max_invalid_rate=run.config.rollout.max_invalid_rate,
        )
        figures["num_rules"] = len(kept)
    return kept


@task(name="update_policy", task_run_name="update {stage.policy.name} i{stage.iteration}", **RETRY)
async def update_policy(stage: Stage, plan: RolloutPlan) -> str:
    """Id of the version that training on the plan's verdicts gives; the parent's when nothing carries signal."""
    shop, parent = workshop(stage.config), stage.policy
    name = "warm_start" if stage.iteration == 0 else "train"
    async with timed(shop.store, stage.run, name, stage.iteration) as figures:
        batches, seen = await asyncio.to_thread(_batches, shop, stage, plan)
        policy = await _trained(shop, stage, batches, seen) if batches else parent
        figures |= {"policy_id": policy.id, "batch_ids": list(policy.batch_ids), **policy.metrics, **seen}
    return policy.id


def _batches(shop: Workshop, stage: Stage, plan: RolloutPlan) -> tuple[list[TrainingBatch], dict[str, float]]:
    """One batch per domain, those without samples left out: a domain's steps are not diluted by another's tokens."""
    judged = verified(shop, [request.id for request in plan.requests(shop, stage.run)])
    images = {spec.content_hash: images_in(spec.prompt) for spec in plan.specs(shop)}
    kind: Kind = "sft" if stage.iteration == 0 else "grpo"
    batches = []
    for domain in shop.domains:
        mine = [v for v in judged if v.trajectory.domain == domain]
        batch, fates = make_batch(mine, kind=kind, policy_version=stage.policy.id, prompt_images=images)
        rows = [{**fate, "run_id": stage.run.run_id, "iteration": stage.iteration} for fate in fates]
        key = f"{stage.run.run_id}/{stage.iteration}/{domain}/{batch.id}"
        shop.store.commit("batches", rows, key=key, run_id=stage.run.run_id)
        batches.append(batch)
    return [batch for batch in batches if batch.samples], _seen(judged, batches)


async def _trained(
    shop: Workshop, stage: Stage, batches: Sequence[TrainingBatch], seen: dict[str, float]
) -> PolicyVersion:
    batch_ids = tuple(batch.id for batch in batches)
    policy_id = short_id("p", [stage.policy.id, list(batch_ids), shop.trainer.settings_digest()])
    known = shop.ledger.find(policy_id)
    if known is not None and weights_dir(policy_id).is_dir():
        return known
    trainer = await shop.training(stage.policy, run_dir(stage.run))
    shop.trained_to(None)
    kind = batches[0].kind
    where = {"iteration": stage.iteration, "iterations": stage.config.iterations, "kind": kind}
    emit("train", **where, policy_name=_next_name(stage), state="updating")
    results = [await asyncio.to_thread(trainer.train, batch) for batch in batches]
    await asyncio.to_thread(trainer.publish, weights_dir(policy_id))
    policy = PolicyVersion(
        id=policy_id,
        name=_next_name(stage),
        kind=kind,
        parent=stage.policy.id,
        uri=str(weights_dir(policy_id)),
        batch_ids=batch_ids,
        run_id=stage.run.run_id,
        num_updates=stage.policy.num_updates + sum(result.num_updates for result in results),
        metrics=_mean_metrics(results),
        created_at=now(),
    )
    shop.ledger.record(policy)
    shop.trained_to(policy)
    prune_weights(shop, stage.run)
    _tell(stage, policy, seen)
    return policy


def _mean_metrics(results: Sequence[TrainResult]) -> dict[str, float]:
    """Each figure's mean over the batches that have it."""
    names = {name for result in results for name in result.metrics}
    values = {name: [r.metrics[name] for r in results if name in r.metrics] for name in sorted(names)}
    return {name: sum(each) / len(each) for name, each in values.items()}


def _next_name(stage: Stage) -> str:
    return f"v{int(stage.policy.name.removeprefix('v')) + 1}"


def _seen(judged: Sequence[VerifiedTrajectory], batches: Sequence[TrainingBatch]) -> dict[str, float]:
    """What the batches were made of: mean valid reward, share of groups with signal, samples, drops by reason."""
    rewards = [v.verdict.reward for v in judged if v.verdict.reward is not None]
    num_groups = len({v.trajectory.group_id for v in judged})
    samples = [sample for batch in batches for sample in batch.samples]
    reasons = {reason for batch in batches for reason in batch.dropped}
    dropped = {f"num_{reason}": float(sum(b.dropped.get(reason, 0) for b in batches)) for reason in sorted(reasons)}
    return dropped | {
        "reward_mean": sum(rewards) / max(len(rewards), 1),
        "groups_with_signal_rate": len({sample.group_id for sample in samples}) / max(num_groups, 1),
        "num_samples": float(len(samples)),
    }


def _tell(stage: Stage, policy: PolicyVersion, seen: dict[str, float]) -> None:
    emit(
        "train",
        iteration=stage.iteration,
        iterations=stage.config.iterations,
        kind=policy.kind,
        policy_name=policy.name,
        **policy.metrics,
        **seen,
    )
