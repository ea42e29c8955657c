"""Rollouts and verdicts as Prefect tasks: plan what is missing, do it, commit it in chunks."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefect import task

from assay.errors import EngineError
from assay.records import (
    DatasetRef,
    PolicyVersion,
    Purpose,
    RolloutRequest,
    SamplingParams,
    TaskSpec,
    Trajectory,
    VerifiedTrajectory,
)
from rollouts.collect import collect
from rollouts.demonstrate import ORACLE, OracleEngine
from rollouts.engines.base import Engine
from rollouts.image_chat import chat_for
from rollouts.plan import missing, plan_groups
from rollouts.verify import verify
from storage.rows import reward_rows, trajectory_rows, turn_rows
from tasks.artifacts import progress
from tasks.load_tasks import refuse_unseen_by, tasks_at
from tasks.lookup import done_ids, unverified
from tasks.policies import base_policy
from tasks.run import RunRef, timed
from tasks.transient import RETRY
from tasks.workshop import Workshop, workshop
from tasks.writer import ChunkWriter

CHUNK = 16


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """Which tasks to roll out, under which policy and sampling: small enough to hand around."""

    purpose: Purpose
    iteration: int
    policy: PolicyVersion
    tasks: DatasetRef
    task_hashes: tuple[str, ...]
    group_size: int
    sampling: SamplingParams

    def requests(self, shop: Workshop, run: RunRef) -> list[RolloutRequest]:
        chosen = self.specs(shop)
        return plan_groups(chosen, self.policy.id, self.sampling, self.group_size, self.purpose, run.run_id)

    def specs(self, shop: Workshop) -> list[TaskSpec]:
        by_hash = {spec.content_hash: spec for spec in tasks_at(shop, self.tasks)}
        return [by_hash[task_hash] for task_hash in self.task_hashes]


@task(name="roll_out", task_run_name="roll_out {plan.purpose} {plan.policy.name} i{plan.iteration}", **RETRY)
async def roll_out(run: RunRef, plan: RolloutPlan) -> int:
    """Do the rollouts of a plan that the store lacks; returns how many were done now.

    Raises EngineError when more than `max_invalid_rate` of a domain's failed: something is wrong with the machine, and
    going on would only produce rows without a reward.
    """
    shop = workshop(run.config)
    requests = plan.requests(shop, run)
    todo = missing(requests, done_ids(shop, [request.id for request in requests]))
    if not todo:
        return 0
    engine = await _engine(shop, run, plan)
    writer: ChunkWriter[Trajectory] = ChunkWriter(_committer(shop, run, plan.iteration), lambda t: t.id, CHUNK)
    limits = run.config.rollout
    title = f"{len(todo)} rollouts, policy {plan.policy.name}, iteration {plan.iteration}"
    async with (
        timed(shop.store, run, "rollout", plan.iteration, label=plan.purpose) as figures,
        progress("rollout", f"rollouts-{plan.purpose}", title),
    ):
        try:
            done = await collect(
                todo,
                shop.domains,
                engine,
                shop.sandboxes,
                max_concurrency=limits.max_concurrency,
                deadline_s=limits.deadline_s,
                state_hashes=limits.state_hashes,
                on_done=writer.add,
            )
        finally:
            await writer.finish()
        figures |= {"num_rollouts": len(done), "num_tokens": sum(t.num_tokens for t in done)}
    _refuse_mass_failure(done, limits.max_invalid_rate)
    return len(done)


@task(name="verify", task_run_name="verify {plan.purpose} {plan.policy.name} i{plan.iteration}", **RETRY)
async def verify_plan(run: RunRef, plan: RolloutPlan) -> int:
    """Judge the trajectories of a plan that have no verdict of the current verifier; returns how many."""
    shop = workshop(run.config)
    ids = [request.id for request in plan.requests(shop, run)]
    waiting = unverified(shop, ids)
    if not waiting:
        return 0
    writer: ChunkWriter[VerifiedTrajectory] = ChunkWriter(
        _verdict_committer(shop, run), lambda v: v.trajectory.id + v.verifier_version, CHUNK
    )
    async with timed(shop.store, run, "verify", plan.iteration, label=plan.purpose) as figures:
        try:
            judged = await verify(
                waiting,
                plan.specs(shop),
                shop.domains,
                shop.sandboxes,
                max_concurrency=run.config.rollout.max_concurrency,
                on_done=writer.add,
            )
        finally:
            await writer.finish()
        figures |= {"num_verified": len(judged), "num_passed": sum(v.verdict.passed for v in judged)}
    return len(judged)


async def _engine(shop: Workshop, run: RunRef, plan: RolloutPlan) -> Engine:
    if plan.policy.id != ORACLE:
        refuse_unseen_by(shop, plan.specs(shop), plan.policy.uri)
        return await shop.serving(plan.policy)
    chat = await asyncio.to_thread(chat_for, base_policy(shop, run).uri)
    return OracleEngine(chat, plan.specs(shop), shop.domains)


def _committer(shop: Workshop, run: RunRef, iteration: int) -> Callable[[Sequence[Any], str], None]:
    def commit(done: Sequence[Trajectory], digest: str) -> None:
        key = f"{run.run_id}/{iteration}/{digest}"
        # Turns first: a trajectory that is visible always has its turns.
        shop.store.commit("turns", turn_rows(done), key=key, run_id=run.run_id)
        shop.store.commit("trajectories", trajectory_rows(done, iteration), key=key, run_id=run.run_id)

    return commit


def _verdict_committer(shop: Workshop, run: RunRef) -> Callable[[Sequence[Any], str], None]:
    def commit(judged: Sequence[VerifiedTrajectory], digest: str) -> None:
        shop.store.commit("rewards", reward_rows(judged), key=f"{run.run_id}/{digest}", run_id=run.run_id)

    return commit


def _refuse_mass_failure(done: Sequence[Trajectory], max_invalid_rate: float) -> None:
    for domain in sorted({t.domain for t in done}):
        mine = [t for t in done if t.domain == domain]
        failed = [t.failure for t in mine if t.failure is not None]
        if len(failed) > max_invalid_rate * len(mine):
            raise EngineError(
                f"{len(failed)} of {len(mine)} rollouts of {domain} failed, more than max_invalid_rate "
                f"{max_invalid_rate} allows. The first: {failed[0].cause}: {failed[0].detail} They are in the store; "
                "mend the cause and run again."
            )
