"""Held-out results of a policy version, per domain, with interval."""

from typing import Any

from prefect import task

from assay.progress import emit
from assay.records import VerifiedTrajectory
from quality.statistics import wilson
from tasks.lookup import verified
from tasks.roll_out import RolloutPlan
from tasks.run import RunRef
from tasks.transient import RETRY
from tasks.workshop import workshop


@task(name="score", task_run_name="score {plan.policy.name}", **RETRY)
async def score(run: RunRef, plan: RolloutPlan) -> list[dict[str, Any]]:
    """Commit and return one row per domain of the table `evaluations`."""
    shop = workshop(run.config)
    ids = [request.id for request in plan.requests(shop, run)]
    judged = verified(shop, ids)
    rows = [_row(run, plan, domain, _of(judged, domain)) for domain in sorted({v.trajectory.domain for v in judged})]
    key = f"{run.run_id}/{plan.policy.id}"
    shop.store.commit("evaluations", rows, key=key, run_id=run.run_id)
    for row in rows:
        emit("evaluate", low=row["low_rate"], high=row["high_rate"], **row)
    return rows


def _of(judged: list[VerifiedTrajectory], domain: str) -> list[VerifiedTrajectory]:
    return [v for v in judged if v.trajectory.domain == domain]


def _row(run: RunRef, plan: RolloutPlan, domain: str, judged: list[VerifiedTrajectory]) -> dict[str, Any]:
    valid = [v for v in judged if v.verdict.valid]
    num_passed = sum(v.verdict.passed for v in valid)
    low, high = wilson(num_passed, len(valid))
    return {
        "run_id": run.run_id,
        "policy_version": plan.policy.id,
        "policy_name": plan.policy.name,
        "policy_kind": plan.policy.kind,
        "iteration": plan.iteration,
        "domain": domain,
        "num_tasks": len(judged),
        "num_valid": len(valid),
        "num_passed": num_passed,
        "pass_rate": num_passed / max(len(valid), 1),
        "low_rate": low,
        "high_rate": high,
        "mean_reward": sum(v.verdict.reward or 0.0 for v in valid) / max(len(valid), 1),
        "at_s": run.elapsed_s(),
    }
