"""A small store as a finished run leaves it: two domains, a warm start, two iterations, faults of several kinds.

held-out of 8 tasks per domain: extraction 2 -> 7 passed, repair 0 -> 2 (warm start) -> 5
each iteration: 3 groups of 4 per domain; one group has no signal, one rollout is invalid
defects: two planted and caught, one planted and missed, one honest task caught
"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.ids import short_id
from assay.records import Image
from quality.statistics import wilson
from storage.store import Store

RUN = "r_0123456789abcdef"
DOMAINS = ("code_repair", "record_extraction")
POLICIES = {name: short_id("p", name) for name in ("v0", "v1", "v2", "v3")}
PASSED = {
    "record_extraction": {"v0": 2, "v1": 2, "v3": 7},
    "code_repair": {"v0": 0, "v1": 2, "v3": 5},
}
NUM_HELDOUT = 8
HOSTILE = "<script>alert(1)</script> \x1b[31mred\x1b]0;title\x07 & \"quoted\" 'x' {{ 7 * 7 }} \u202egnp"
PIXEL = Image(
    data=base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
    )
)
BEGIN = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

Row = dict[str, Any]


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def make_lake(uri: str, *, finished: bool = True) -> Store:
    """Write the store at `uri` and return it; without `finished` the run stopped in its second iteration."""
    store = Store.open(uri)
    trajectories = list(all_trajectories())
    tables: dict[str, list[Row]] = {
        "tasks": [task_row(domain, split, i) for domain in DOMAINS for split, i in task_numbers()],
        "evidence": list(evidence_rows()),
        "certificates": list(certificate_rows()),
        "solvability": [solvability_row(domain, i) for domain in DOMAINS for i in range(6)],
        "turns": [turn for trajectory in trajectories for turn in turn_rows(trajectory)],
        "trajectories": [{key: value for key, value in row.items() if not key.startswith("_")} for row in trajectories],
        "rewards": [reward_row(row) for row in trajectories if row["failure_cause"] != "engine"],
        "batches": [batch_row(row) for row in trajectories if row["purpose"] in ("train", "demonstration")],
        "policies": list(policy_rows()),
        "evaluations": [evaluation_row(domain, name) for domain in DOMAINS for name in ("v0", "v1", "v3")],
        "runs": list(run_rows(finished=finished)),
    }
    for table, rows in tables.items():
        store.commit(table, rows, key=f"{RUN}/{table}", run_id=RUN)
    return store


def task_numbers() -> Iterator[tuple[str, int]]:
    yield from (("train", i) for i in range(6))
    yield from (("heldout", i) for i in range(NUM_HELDOUT))
    yield from (("defect", i) for i in range(2))


def identity(domain: str, split: str, i: int) -> Row:
    return {
        "task_id": f"{domain}/{split}/{i:03d}",
        "task_hash": short_id("h", [domain, split, i]),
        "domain": domain,
        "environment_version": "1",
    }


def task_row(domain: str, split: str, i: int) -> Row:
    return identity(domain, split, i) | {
        "split": "heldout" if split == "heldout" else "train",
        "level": 1 + i % 3,
        "template": f"{split}-{i}",
        "answer_digest": short_id("a", [domain, split, i]),
        "prompt_json": json.dumps([{"role": "user", "content": f"Task {i} of {domain}: {HOSTILE}"}]),
        "public_json": "{}",
        "hidden_json": "{}",
        "max_turns": 2,
        "max_new_tokens": 40,
        "tools_json": "[]",
        "max_context_tokens": None,
        "agent_timeout_s": None,
        **dict.fromkeys(("source", "licence", "source_version", "source_uri", "source_digest")),
    }


def defective(domain: str, split: str, i: int) -> str:
    """What inspection found: one planted defect of code_repair is missed, one honest extraction task is broken."""
    if split == "defect":
        return "" if (domain, i) == ("code_repair", 1) else "oracle_accepted"
    return "noop_rejected" if (domain, split, i) == ("record_extraction", "train", 5) else ""


def evidence_rows() -> Iterator[Row]:
    for domain in DOMAINS:
        for split, i in task_numbers():
            bad = defective(domain, split, i)
            for probe in ("oracle_accepted", "noop_rejected"):
                found = probe == bad
                yield identity(domain, split, i) | {
                    "evidence_id": short_id("e", [domain, split, i, probe]),
                    "probe": probe,
                    "probe_version": "1",
                    "finding": "found" if found else "clear",
                    "summary": f"scored 0.4 {HOSTILE}" if found else "as it should be",
                    "tried_json": "{}",
                    "seed": 0,
                    "wall_s": 0.1,
                    "num_sandboxes": 1,
                }


def certificate_rows() -> Iterator[Row]:
    for domain in DOMAINS:
        for split, i in task_numbers():
            bad = defective(domain, split, i)
            ids = [short_id("e", [domain, split, i, probe]) for probe in ("oracle_accepted", "noop_rejected")]
            yield identity(domain, split, i) | {
                "certificate_id": short_id("c", [domain, split, i]),
                "state": "quarantined" if bad else "trusted",
                "reasons": [f"{bad}: scored 0.4"] if bad else [],
                "evidence_ids": ids,
                "issued_at": at(5),
            }


def solvability_row(domain: str, i: int) -> Row:
    band = "too_hard" if i == 0 else "saturated" if i == 1 else "trainable"
    return identity(domain, "train", i) | {
        "policy_version": POLICIES["v1"],
        "iteration": 1,
        "num_valid": 2,
        "num_passed": {"too_hard": 0, "saturated": 2, "trainable": 1}[band],
        "pass_rate": 0.5,
        "low_rate": 0.1,
        "high_rate": 0.9,
        "band": band,
    }


def all_trajectories() -> Iterator[Row]:
    """Keys that begin with `_` are for the other tables."""
    for domain in DOMAINS:
        for name in ("v0", "v1", "v3"):
            for i in range(NUM_HELDOUT):
                passed = i < PASSED[domain][name]
                yield trajectory_row(domain, "heldout", i, name, 0, "evaluation", 0, 1.0 if passed else 0.25)
        for i in range(2):
            yield trajectory_row(domain, "train", i, "v0", 0, "demonstration", 0, 1.0)
        for i in range(6):
            yield trajectory_row(domain, "train", i, "v1", 0, "solvability", 1, 0.5)
        for iteration, name in ((1, "v1"), (2, "v2")):
            for task in (2, 3, 4):
                for sample in range(4):
                    reward = 0.5 if task == 4 else min(1.0, 0.25 * sample + 0.25 * (iteration - 1))
                    broken = task == 2 and sample == 3
                    yield trajectory_row(
                        domain, "train", task, name, sample, "train", iteration, None if broken else reward
                    )


def trajectory_row(
    domain: str, split: str, i: int, policy: str, sample: int, purpose: str, iteration: int, reward: float | None
) -> Row:
    group = [domain, split, i, policy, purpose]
    cause = None if reward is not None else "engine" if iteration == 2 else "sandbox"
    return identity(domain, split, i) | {
        "trajectory_id": short_id("t", [*group, sample]),
        "group_id": short_id("g", group),
        "level": 1 + i % 3,
        "purpose": purpose,
        "iteration": iteration,
        "temperature": 0.0 if purpose == "evaluation" else 0.8,
        "max_new_tokens": 40,
        "seed": 1,
        "sample_index": sample,
        "first_policy": POLICIES[policy],
        "last_policy": POLICIES[policy],
        "num_turns": 1 if cause else 2,
        "num_tokens": 10 + i + sample,
        "end_reason": "failed" if cause else "truncated" if sample == 2 else "done",
        "submission": "{}",
        "metrics_json": "{}",
        "failure_cause": cause,
        "failure_detail": f"no room {HOSTILE}" if cause else None,
        "sandbox": "bubblewrap 0.11",
        "started_at": at(20 + iteration),
        "wall_s": 1.0 + sample,
        "_reward": reward,
    }


def turn_rows(trajectory: Row) -> Iterator[Row]:
    for index in range(trajectory["num_turns"]):
        yield {
            "trajectory_id": trajectory["trajectory_id"],
            "turn_index": index,
            "domain": trajectory["domain"],
            "prompt_ids": [1, 2, 3],
            "completion_ids": [4, 5],
            "logprobs": [-0.1, -0.2],
            "completion": f"completion {index} {HOSTILE}",
            "finish_reason": "stop",
            "policy_version": trajectory["first_policy"],
            "action": "answer",
            "observation": f"reply {HOSTILE}" if index == 0 else "",
            "sample_s": 0.5,
            "act_s": 0.1,
            "state_hash": short_id("s", [trajectory["trajectory_id"], index]) if index == 0 else "",
            "images": [{"media_type": "image/png", "sha256": PIXEL.digest, "data": PIXEL.data}] if index == 0 else [],
        }


def reward_row(trajectory: Row) -> Row:
    reward = trajectory["_reward"]
    term = {"name": "fields", "value": reward, "weight": 1.0, "note": f"total wrong {HOSTILE}"}
    return {
        "trajectory_id": trajectory["trajectory_id"],
        "task_id": trajectory["task_id"],
        "domain": trajectory["domain"],
        "valid": reward is not None,
        "reward": reward,
        "passed": reward == 1.0,
        "cause": trajectory["failure_cause"],
        "detail": trajectory["failure_detail"],
        "judged": "fresh_sandbox",
        "terms": [term] if reward is not None else [],
        "verifier_version": "1",
        "verify_s": 0.2,
    }


def batch_row(trajectory: Row) -> Row:
    warm = trajectory["purpose"] == "demonstration"
    invalid = trajectory["_reward"] is None
    reason = "invalid" if invalid else "no_signal" if trajectory["task_id"].endswith("004") and not warm else None
    return {
        "batch_id": f"b_{trajectory['iteration']}",
        "kind": "sft" if warm else "grpo",
        "iteration": trajectory["iteration"],
        "policy_version": trajectory["first_policy"],
        "trajectory_id": trajectory["trajectory_id"],
        "group_id": trajectory["group_id"],
        "domain": trajectory["domain"],
        "in_baseline": not invalid and not warm,
        "used": reason is None,
        "drop_reason": reason,
        "advantage": None if reason else 0.5,
        "num_loss_tokens": 0 if reason else 2,
    }


def policy_rows() -> Iterator[Row]:
    kinds = {"v0": "base", "v1": "sft", "v2": "grpo", "v3": "grpo"}
    for number, (name, kind) in enumerate(kinds.items()):
        yield {
            "policy_id": POLICIES[name],
            "name": name,
            "kind": kind,
            "parent": POLICIES[f"v{number - 1}"] if number else None,
            "uri": f"/models/{name}",
            "batch_ids": [f"b_{number - 1}"] if number else [],
            "num_updates": number,
            "metrics_json": "{}",
            "created_at": at(10 * number),
        }


def evaluation_row(domain: str, name: str) -> Row:
    num_passed = PASSED[domain][name]
    low, high = wilson(num_passed, NUM_HELDOUT)
    return {
        "policy_version": POLICIES[name],
        "policy_name": name,
        "policy_kind": {"v0": "base", "v1": "sft", "v3": "grpo"}[name],
        "iteration": {"v0": 0, "v1": 0, "v3": 2}[name],
        "domain": domain,
        "num_tasks": NUM_HELDOUT,
        "num_valid": NUM_HELDOUT,
        "num_passed": num_passed,
        "pass_rate": num_passed / NUM_HELDOUT,
        "low_rate": low,
        "high_rate": high,
        "mean_reward": 0.5,
        "at_s": {"v0": 10.0, "v1": 20.0, "v3": 90.0}[name],
    }


def run_rows(*, finished: bool) -> Iterator[Row]:
    config = {"name": "smoke", "seed": 0, "domains": {domain: {} for domain in DOMAINS}}
    started = json.dumps({"config": config, "number": 3})
    yield run_row("started", "run", 0, 0, 0.0, started)
    stages = [("inspect", 0, 5.0), ("rollout", 1, 30.0), ("train", 1, 20.0), ("rollout", 2, 25.0)]
    for order, (stage, iteration, wall_s) in enumerate(stages, start=1):
        yield run_row("stage", stage, iteration, 20 * order, wall_s)
    if finished:
        yield run_row("stage", "train", 2, 95, 15.0)
        yield run_row("finished", "run", 2, 100, 100.0)


def run_row(event: str, stage: str, iteration: int, seconds: float, wall_s: float, data: str = "{}") -> Row:
    return {
        "event": event,
        "stage": stage,
        "label": "",
        "iteration": iteration,
        "attempt": 1,
        "name": "smoke",
        "config_digest": "cfg_1",
        "ended_at": at(seconds),
        "wall_s": wall_s,
        "data_json": data,
    }
