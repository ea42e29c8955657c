"""Records to rows of their tables, and back. What goes in comes out equal, but for log-probabilities, which are
kept as 32-bit floats, and mappings, which come back as plain dicts of JSON values.

    store.commit("turns", turn_rows(trajectories), ...)          turns first: a visible trajectory has its turns
    store.commit("trajectories", trajectory_rows(trajectories, iteration), ...)
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from assay.errors import StoreError
from assay.ids import canonical_json
from assay.records import (
    Band,
    Cause,
    Certificate,
    Evidence,
    Failure,
    Finding,
    Image,
    Message,
    PolicyVersion,
    RewardTerm,
    SamplingParams,
    SolvabilityEstimate,
    Source,
    TaskSpec,
    TaskState,
    Tool,
    Trajectory,
    Turn,
    Verdict,
    VerifiedTrajectory,
)

Row = dict[str, Any]
_NO_VERSIONS: Mapping[str, str] = {}


def task_rows(tasks: Iterable[TaskSpec], run_id: str) -> list[Row]:
    """Rows of `tasks`."""
    return [
        {
            "task_id": task.id,
            "task_hash": task.content_hash,
            "domain": task.domain,
            "environment_version": task.environment_version,
            "split": task.split,
            "level": task.level,
            "template": task.template,
            "answer_digest": task.answer_digest,
            "prompt_json": _messages_json(task),
            "public_json": _json(f"Task {task.id}: public", task.public),
            "hidden_json": _json(f"Task {task.id}: hidden", task.hidden),
            "max_turns": task.max_turns,
            "max_new_tokens": task.max_new_tokens,
            "tools_json": canonical_json([_fields(tool, "name description parameters") for tool in task.tools]),
            "max_context_tokens": task.max_context_tokens,
            "agent_timeout_s": task.agent_timeout_s,
            **_source(task.source),
            "run_id": run_id,
        }
        for task in tasks
    ]


def tasks_from(frame: pl.DataFrame) -> list[TaskSpec]:
    """Tasks in row order. StoreError when a task no longer has the content hash it was stored under."""
    return [_task(row) for row in frame.iter_rows(named=True)]


def evidence_rows(evidence: Iterable[Evidence], run_id: str) -> list[Row]:
    """Rows of `evidence`."""
    return [
        {
            "evidence_id": e.id,
            "task_id": e.task_id,
            "task_hash": e.task_hash,
            "domain": e.domain,
            "environment_version": e.environment_version,
            "probe": e.probe,
            "probe_version": e.probe_version,
            "finding": e.finding.value,
            "summary": e.summary,
            "tried_json": _json(f"Evidence {e.probe} on {e.task_id}: tried", e.tried),
            "seed": e.seed,
            "wall_s": e.wall_s,
            "num_sandboxes": e.num_sandboxes,
            "run_id": run_id,
        }
        for e in evidence
    ]


def evidence_from(frame: pl.DataFrame) -> list[Evidence]:
    """Evidence in row order."""
    return [
        Evidence(
            **_pick(row, "task_id task_hash domain environment_version probe probe_version summary seed wall_s"),
            finding=Finding(row["finding"]),
            tried=json.loads(row["tried_json"]),
            num_sandboxes=row["num_sandboxes"],
        )
        for row in frame.iter_rows(named=True)
    ]


def certificate_rows(certificates: Iterable[Certificate], run_id: str) -> list[Row]:
    """Rows of `certificates`."""
    return [
        {
            "certificate_id": c.id,
            "task_id": c.task_id,
            "task_hash": c.task_hash,
            "domain": c.domain,
            "environment_version": c.environment_version,
            "state": c.state.value,
            "reasons": list(c.reasons),
            "evidence_ids": list(c.evidence_ids),
            "issued_at": c.issued_at,
            "run_id": run_id,
        }
        for c in certificates
    ]


def certificates_from(frame: pl.DataFrame) -> list[Certificate]:
    """Certificates in row order."""
    return [
        Certificate(
            **_pick(row, "task_id task_hash domain environment_version issued_at"),
            state=TaskState(row["state"]),
            reasons=tuple(row["reasons"]),
            evidence_ids=tuple(row["evidence_ids"]),
        )
        for row in frame.iter_rows(named=True)
    ]


def solvability_rows(
    estimates: Iterable[SolvabilityEstimate],
    run_id: str,
    iteration: int,
    environment_versions: Mapping[str, str] = _NO_VERSIONS,
) -> list[Row]:
    """Rows of `solvability`. `environment_versions` by domain; null where it is not given (the task hash covers it)."""
    return [
        {
            **_fields(e, "task_id task_hash domain policy_version num_valid num_passed pass_rate low_rate high_rate"),
            "environment_version": environment_versions.get(e.domain),
            "iteration": iteration,
            "band": e.band.value,
            "run_id": run_id,
        }
        for e in estimates
    ]


def estimates_from(frame: pl.DataFrame) -> list[SolvabilityEstimate]:
    """Solvability estimates in row order."""
    names = "task_id task_hash domain policy_version num_valid num_passed pass_rate low_rate high_rate"
    return [SolvabilityEstimate(**_pick(row, names), band=Band(row["band"])) for row in frame.iter_rows(named=True)]


def trajectory_rows(trajectories: Iterable[Trajectory], iteration: int) -> list[Row]:
    """Rows of `trajectories`; the turns are rows of their own table."""
    return [
        {
            "trajectory_id": t.id,
            "sample_index": t.index,
            **_fields(t, "group_id task_id task_hash domain environment_version level purpose"),
            "iteration": iteration,
            **_fields(t.sampling, "temperature max_new_tokens seed"),
            **_fields(t, "first_policy last_policy num_tokens submission sandbox started_at wall_s run_id"),
            "num_turns": len(t.turns),
            "end_reason": t.end,
            "metrics_json": _json(f"Trajectory {t.id}: metrics", t.metrics),
            "failure_cause": t.failure.cause.value if t.failure else None,
            "failure_detail": t.failure.detail if t.failure else None,
        }
        for t in trajectories
    ]


def turn_rows(trajectories: Iterable[Trajectory]) -> list[Row]:
    """Rows of `turns`."""
    return [
        {
            "trajectory_id": t.id,
            "turn_index": turn.index,
            "domain": t.domain,
            "prompt_ids": list(turn.prompt_ids),
            "completion_ids": list(turn.completion_ids),
            "logprobs": list(turn.logprobs),
            **_fields(turn, "completion finish_reason policy_version action observation sample_s act_s state_hash"),
            "images": [
                {"media_type": image.media_type, "sha256": image.digest, "data": image.data} for image in turn.images
            ],
            "run_id": t.run_id,
        }
        for t in trajectories
        for turn in t.turns
    ]


def trajectories_from(rows: pl.DataFrame, turns: pl.DataFrame) -> list[Trajectory]:
    """Trajectories in row order, each with its turns; `turns` may hold those of others too.

    StoreError when a trajectory lacks turns.
    """
    by_id: dict[str, list[Row]] = {}
    for turn in turns.filter(pl.col("trajectory_id").is_in(rows["trajectory_id"].to_list())).iter_rows(named=True):
        by_id.setdefault(turn["trajectory_id"], []).append(turn)
    return [_trajectory(row, by_id.get(row["trajectory_id"], [])) for row in rows.iter_rows(named=True)]


def reward_rows(verified: Iterable[VerifiedTrajectory]) -> list[Row]:
    """Rows of `rewards`, without `run_id`: the commit fills in the run that verified."""
    return [
        {
            "trajectory_id": v.trajectory.id,
            "task_id": v.trajectory.task_id,
            "domain": v.trajectory.domain,
            **_fields(v.verdict, "valid reward passed judged"),
            "cause": v.verdict.failure.cause.value if v.verdict.failure else None,
            "detail": v.verdict.failure.detail if v.verdict.failure else None,
            "terms": [_fields(term, "name value weight note") for term in v.verdict.terms],
            **_fields(v, "verifier_version verify_s"),
        }
        for v in verified
    ]


def verified_from(trajectories: Iterable[Trajectory], rewards: pl.DataFrame) -> list[VerifiedTrajectory]:
    """The trajectories that have a verdict, in their order; of several verdicts on one the last row counts."""
    verdicts = {row["trajectory_id"]: row for row in rewards.iter_rows(named=True)}
    return [_verified(t, verdicts[t.id]) for t in trajectories if t.id in verdicts]


def policy_rows(policies: Iterable[PolicyVersion]) -> list[Row]:
    """Rows of `policies`."""
    return [
        {
            "policy_id": p.id,
            **_fields(p, "name kind parent uri num_updates created_at run_id"),
            "batch_ids": list(p.batch_ids),
            "metrics_json": _json(f"Policy {p.id}: metrics", p.metrics),
        }
        for p in policies
    ]


def policies_from(frame: pl.DataFrame) -> list[PolicyVersion]:
    """Policy versions in row order."""
    return [
        PolicyVersion(
            id=row["policy_id"],
            **_pick(row, "name kind parent uri num_updates created_at run_id"),
            batch_ids=tuple(row["batch_ids"]),
            metrics=json.loads(row["metrics_json"]),
        )
        for row in frame.iter_rows(named=True)
    ]


def _messages_json(task: TaskSpec) -> str:
    return canonical_json([_message_row(message) for message in task.prompt])


def _message_row(message: Message) -> Row:
    images = [
        {"media_type": image.media_type, "base64": base64.b64encode(image.data).decode()} for image in message.images
    ]
    return {"role": message.role, "content": message.content, **({"images": images} if images else {})}


def _message(row: Row) -> Message:
    images = tuple(
        Image(data=base64.b64decode(image["base64"]), media_type=image["media_type"]) for image in row.get("images", ())
    )
    return Message(role=row["role"], content=row["content"], images=images)


def _source(source: Source | None) -> Row:
    names = {"source": "name", "licence": "licence"} | {f"source_{n}": n for n in ("version", "uri", "digest")}
    return {column: getattr(source, name) if source else None for column, name in names.items()}


def _source_from(row: Row) -> Source | None:
    if row["source"] is None:
        return None
    told = {name: row[f"source_{name}"] for name in ("version", "uri", "digest")}
    return Source(name=row["source"], licence=row["licence"], **told)


def _task(row: Row) -> TaskSpec:
    task = TaskSpec(
        id=row["task_id"],
        **_pick(row, "domain environment_version split level template answer_digest max_turns max_new_tokens"),
        **_pick(row, "max_context_tokens agent_timeout_s"),
        prompt=tuple(map(_message, json.loads(row["prompt_json"]))),
        # Null in rows that are older than the column.
        tools=tuple(Tool(**tool) for tool in json.loads(row["tools_json"] or "[]")),
        source=_source_from(row),
        public=json.loads(row["public_json"]),
        hidden=json.loads(row["hidden_json"]),
    )
    if task.content_hash != row["task_hash"]:
        raise StoreError(
            f"Task {task.id} was stored with content hash {row['task_hash']} but its content now hashes to "
            f"{task.content_hash}: the row was changed or another version of Assay hashes differently. Load the "
            "tasks afresh from their domain."
        )
    return task


def _trajectory(row: Row, turns: Sequence[Row]) -> Trajectory:
    if len(turns) != row["num_turns"]:
        raise StoreError(
            f"Trajectory {row['trajectory_id']} has {row['num_turns']} turns by its row, but the turns given hold "
            f"{len(turns)} of them. Give all its turns; commit turns before their trajectories."
        )
    cause = row["failure_cause"]
    return Trajectory(
        id=row["trajectory_id"],
        **_pick(row, "group_id run_id task_id task_hash domain level environment_version purpose"),
        sampling=SamplingParams(**_pick(row, "temperature max_new_tokens seed")),
        index=row["sample_index"],
        turns=tuple(_turn(turn) for turn in sorted(turns, key=lambda turn: turn["turn_index"])),
        end=row["end_reason"],
        metrics=json.loads(row["metrics_json"]),
        failure=Failure(cause=Cause(cause), detail=row["failure_detail"]) if cause is not None else None,
        **_pick(row, "first_policy last_policy submission sandbox started_at wall_s"),
    )


def _turn(row: Row) -> Turn:
    return Turn(
        index=row["turn_index"],
        prompt_ids=tuple(row["prompt_ids"]),
        completion_ids=tuple(row["completion_ids"]),
        logprobs=tuple(row["logprobs"]),
        **_pick(row, "completion finish_reason policy_version action observation sample_s act_s"),
        # Null in rows that are older than the column.
        state_hash=row["state_hash"] or "",
        images=tuple(Image(data=image["data"], media_type=image["media_type"]) for image in row["images"] or ()),
    )


def _verified(trajectory: Trajectory, row: Row) -> VerifiedTrajectory:
    cause = row["cause"]
    verdict = Verdict(
        **_pick(row, "reward passed judged"),
        failure=Failure(cause=Cause(cause), detail=row["detail"]) if cause is not None else None,
        terms=tuple(RewardTerm(**term) for term in row["terms"]),
    )
    return VerifiedTrajectory(trajectory=trajectory, verdict=verdict, **_pick(row, "verifier_version verify_s"))


def _json(owner: str, value: Mapping[str, Any]) -> str:
    """JSON text; StoreError with the owner's name for NaN, infinities and what JSON has no word for."""
    try:
        return canonical_json(dict(value))
    except (TypeError, ValueError) as error:
        raise StoreError(f"{owner} cannot be stored: {error}. Use text, finite numbers, lists and mappings.") from error


def _pick(row: Row, names: str) -> Row:
    return {name: row[name] for name in names.split()}


def _fields(record: Any, names: str) -> Row:
    return {name: getattr(record, name) for name in names.split()}
