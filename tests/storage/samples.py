"""Small rows and a store with one of everything, whose figures can be computed by hand."""

from typing import Any

from assay.records import (
    Band,
    Cause,
    Certificate,
    Evidence,
    Failure,
    Finding,
    PolicyVersion,
    SolvabilityEstimate,
    TaskState,
    VerifiedTrajectory,
)
from storage.ledger import Ledger
from storage.rows import (
    certificate_rows,
    evidence_rows,
    reward_rows,
    solvability_rows,
    task_rows,
    trajectory_rows,
    turn_rows,
)
from storage.store import Store
from tasks.catalogue import domain_row
from tests.builders import POLICY, ToyDomain, a_request, a_task, a_trajectory, a_verdict, a_verified, an_invalid


def event(iteration: Any = 0, **changes: Any) -> dict[str, Any]:
    """A row of `runs` without its run id."""
    row = {
        "event": "stage",
        "stage": "train",
        "label": "",
        "iteration": iteration,
        "attempt": 1,
        "name": "n",
        "config_digest": "c",
        "ended_at": "2026-01-01T00:00:00+00:00",
        "wall_s": 2.0,
        "data_json": "{}",
    }
    return row | changes


def policy(name: str, parent: str | None = None, batches: tuple[str, ...] = (), **changes: Any) -> PolicyVersion:
    fields: dict[str, Any] = {
        "id": f"p_{name}",
        "name": name,
        "kind": "grpo" if parent else "base",
        "parent": parent,
        "uri": f"/models/{name}",
        "batch_ids": batches,
        "run_id": "r",
        "num_updates": int(name[1:]) if name[1:].isdigit() else 0,
        "metrics": {},
        "created_at": f"2026-01-01T00:00:0{name[-1]}+00:00",
    }
    return PolicyVersion(**(fields | changes))


def batch_row(batch: str, trajectory: str, **changes: Any) -> dict[str, Any]:
    row = {
        "batch_id": batch,
        "kind": "grpo",
        "iteration": 1,
        "policy_version": POLICY,
        "trajectory_id": trajectory,
        "group_id": "g",
        "domain": "toy",
        "in_baseline": True,
        "used": True,
        "drop_reason": None,
        "advantage": 0.5,
        "num_loss_tokens": 1,
    }
    return row | changes


def a_group() -> list[VerifiedTrajectory]:
    """Four siblings on task a: right, wrong, half right, and one whose sandbox broke."""
    verdicts = [a_verdict(1.0), a_verdict(0.0), a_verdict(0.5), an_invalid(Cause.SANDBOX)]
    broken = Failure(cause=Cause.SANDBOX, detail="it broke")
    return [
        a_verified(
            a_trajectory(a_request(a_task("a"), index), text="a" * (index + 1), failure=broken if index == 3 else None),
            verdict,
        )
        for index, verdict in enumerate(verdicts)
    ]


def write_rollouts(store: Store, group: list[VerifiedTrajectory], *, iteration: int = 1, key: str = "k") -> None:
    trajectories = [v.trajectory for v in group]
    store.commit("turns", turn_rows(trajectories), key=key, run_id="r")
    store.commit("trajectories", trajectory_rows(trajectories, iteration), key=key, run_id="r")
    store.commit("rewards", reward_rows(group), key=key, run_id="r")


def an_evidence(name: str, finding: Finding) -> Evidence:
    task = a_task(name)
    return Evidence(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        environment_version=task.environment_version,
        probe="oracle_accepted",
        probe_version="1",
        finding=finding,
        summary=f"the oracle of {name} is {finding}",
        tried={"completion": "ünï"},
        seed=0,
        wall_s=0.5,
        num_sandboxes=1,
    )


def a_certificate(name: str, state: TaskState) -> Certificate:
    task = a_task(name)
    return Certificate(
        task_id=task.id,
        task_hash=task.content_hash,
        domain=task.domain,
        environment_version=task.environment_version,
        state=state,
        reasons=() if state is TaskState.TRUSTED else ("oracle rejected",),
        evidence_ids=("e_1",),
        issued_at="2026-01-01T00:00:00+00:00",
    )


def an_estimate(name: str = "a") -> SolvabilityEstimate:
    return SolvabilityEstimate(
        task_id=a_task(name).id,
        task_hash=a_task(name).content_hash,
        domain="toy",
        policy_version=POLICY,
        num_valid=3,
        num_passed=1,
        pass_rate=0.4,
        low_rate=0.1,
        high_rate=0.75,
        band=Band.TRAINABLE,
    )


def fill(store: Store) -> list[VerifiedTrajectory]:
    """Two tasks (one defective), one group of four, its batch, two policies, an evaluation and two events."""
    group = a_group()
    right, wrong, half, broken = (v.trajectory.id for v in group)
    store.commit("tasks", task_rows([a_task("a"), a_task("bad")], "r"), key="k", run_id="r")
    store.commit("domains", [domain_row("toy", ToyDomain(), "r")], key="k", run_id="r")
    probes = [an_evidence("a", Finding.CLEAR), an_evidence("bad", Finding.FOUND)]
    store.commit("evidence", evidence_rows(probes, "r"), key="k", run_id="r")
    standing = [a_certificate("a", TaskState.TRUSTED), a_certificate("bad", TaskState.QUARANTINED)]
    store.commit("certificates", certificate_rows(standing, "r"), key="k", run_id="r")
    store.commit("solvability", solvability_rows([an_estimate()], "r", 1), key="k", run_id="r")
    write_rollouts(store, group)
    dropped = {"in_baseline": False, "used": False, "drop_reason": "invalid", "advantage": None}
    rows = [batch_row("b_1", i) for i in (right, wrong, half)] + [batch_row("b_1", broken, **dropped)]
    store.commit("batches", rows, key="k", run_id="r")
    ledger = Ledger(store)
    ledger.record(policy("v0", id=POLICY))
    ledger.record(policy("v1", POLICY, ("b_1",)))
    evaluation = {
        "policy_version": "p_v1",
        "policy_name": "v1",
        "policy_kind": "grpo",
        "iteration": 1,
        "domain": "toy",
        "num_tasks": 4,
        "num_valid": 4,
        "num_passed": 3,
        "pass_rate": 0.75,
        "low_rate": 0.3,
        "high_rate": 0.95,
        "mean_reward": 0.8,
        "at_s": 12.0,
    }
    store.commit("evaluations", [evaluation], key="k", run_id="r")
    store.commit("runs", [event(1), event(1, stage="rollout", wall_s=6.0)], key="k", run_id="r")
    return group
