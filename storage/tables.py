"""The tables: every column with its type and meaning, and the key that makes a row unique.

Nested JSON values are text columns (`*_json`). Every table has `run_id`, the run that wrote the row.
"""

from dataclasses import dataclass

import polars as pl

TEXT, INT, REAL, BOOL = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
TEXTS, TOKENS, NATS = pl.List(pl.String()), pl.List(pl.Int32()), pl.List(pl.Float32())
TERMS = pl.List(pl.Struct({"name": pl.String(), "value": pl.Float64(), "weight": pl.Float64(), "note": pl.String()}))

# Images are part of their turn's row: both become visible by one commit, and queries that do not name them read none.
IMAGES = pl.List(pl.Struct({"media_type": pl.String(), "sha256": pl.String(), "data": pl.Binary()}))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its polars type and what it means, with unit and example where that helps."""

    type: pl.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `key` names the columns that identify a row: equal keys are the same fact written twice."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: dict[str, Column]

    @property
    def schema(self) -> dict[str, pl.DataType]:
        return {name: column.type for name, column in self.columns.items()}


def _table(name: str, meaning: str, key: str, /, **columns: tuple[pl.DataType, str]) -> Table:
    return Table(name, meaning, tuple(key.split()), {n: Column(t, m) for n, (t, m) in columns.items()})


_TASK = {
    "task_id": (TEXT, "Task, e.g. record_extraction/train/017"),
    "task_hash": (TEXT, "Content hash of the task"),
    "domain": (TEXT, "Family of tasks"),
    "environment_version": (TEXT, "Version of the domain's prompts and scoring"),
}
_RUN = {"run_id": (TEXT, "Run that wrote the row")}

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table(
            "tasks",
            "Problems, with everything that decides how they are asked and scored",
            "task_hash environment_version task_id",
            **_TASK,
            split=(TEXT, "train or heldout"),
            level=(INT, "Difficulty, from 1"),
            template=(TEXT, "Template instance that made it; splits share none"),
            answer_digest=(TEXT, "Hash of the answer; splits share none"),
            prompt_json=(TEXT, "Messages the policy sees first"),
            public_json=(TEXT, "What the agent may read"),
            hidden_json=(TEXT, "What only the verifier reads"),
            max_turns=(INT, "Most completions per episode"),
            max_new_tokens=(INT, "Most tokens per completion"),
            tools_json=(TEXT, "Tools the policy may call, with the JSON schema of their arguments"),
            max_context_tokens=(INT, "Most tokens of context; null where only the run limits it"),
            agent_timeout_s=(REAL, "Most seconds spent on the agent's actions; null where only the run limits it"),
            source=(TEXT, "Where the task comes from, e.g. reasoning_gym; null where unknown"),
            licence=(TEXT, "Licence of the source"),
            source_version=(TEXT, "Version of the source"),
            source_uri=(TEXT, "Address of the source"),
            source_digest=(TEXT, "SHA-256 of what was read, empty for generated tasks"),
            **_RUN,
        ),
        _table(
            "domains",
            "What each run knew of its domains: what they are, what they take, how much of a foreign set was left out",
            "domain environment_version run_id",
            domain=(TEXT, "Family of tasks"),
            environment_version=(TEXT, "Version of the domain's prompts and scoring"),
            kind=(TEXT, "answer, extraction, code, shell, tools, modelling or game"),
            summary=(TEXT, "What its tasks ask"),
            value=(TEXT, "What a policy that learned it can do"),
            source=(TEXT, "Where its tasks come from"),
            licence=(TEXT, "Licence of the source"),
            source_version=(TEXT, "Version of the source"),
            source_uri=(TEXT, "Address of the source"),
            source_digest=(TEXT, "SHA-256 of what was read, empty for generated tasks"),
            levels=(pl.List(pl.Int64()), "Difficulty levels there are"),
            images=(BOOL, "Whether observations hold images"),
            num_train=(INT, "Training tasks there are; null when generated without end"),
            num_heldout=(INT, "Held-out tasks there are; null when generated without end"),
            num_left_out=(INT, "Entries of a foreign set that did not become tasks"),
            num_unsupported=(INT, "Of these, sound ones that can't run here"),
            left_out_json=(TEXT, "Up to 1,000 of them: where, key, value, why"),
            cpu_cores=(REAL, "Cores one episode with its verification takes, without the engine"),
            memory_bytes=(INT, "Bytes of memory it takes"),
            expected_s=(REAL, "Seconds it takes"),
            num_sandboxes=(INT, "Sandboxes it takes"),
            context_tokens=(INT, "Roughly the longest context, in tokens"),
            **_RUN,
        ),
        _table(
            "evidence",
            "What each inspection probe found on each task",
            "evidence_id",
            evidence_id=(TEXT, "Identity"),
            **_TASK,
            probe=(TEXT, "Probe, e.g. oracle_accepted"),
            probe_version=(TEXT, "Version of the probe"),
            finding=(TEXT, "found (a defect), clear or unknown"),
            summary=(TEXT, "One sentence for a person"),
            tried_json=(TEXT, "Inputs and results, enough to repeat it"),
            seed=(INT, "Seed of the probe"),
            wall_s=(REAL, "Seconds spent"),
            num_sandboxes=(INT, "Sandboxes used"),
            **_RUN,
        ),
        _table(
            "certificates",
            "Standing of each task at its content hash; only trusted tasks are rolled out",
            "certificate_id",
            certificate_id=(TEXT, "Identity"),
            **_TASK,
            state=(TEXT, "draft, trusted or quarantined"),
            reasons=(TEXTS, "Why it is not trusted; empty when it is"),
            evidence_ids=(TEXTS, "Evidence it rests on"),
            issued_at=(TEXT, "UTC time"),
            **_RUN,
        ),
        _table(
            "solvability",
            "Posterior pass rate of a task under a policy version",
            "task_hash policy_version num_valid num_passed run_id",
            **_TASK,
            policy_version=(TEXT, "Policy id"),
            iteration=(INT, "Iteration that asked, from 1"),
            num_valid=(INT, "Valid rollouts it rests on"),
            num_passed=(INT, "Of these, passed"),
            pass_rate=(REAL, "Posterior mean, 0..1"),
            low_rate=(REAL, "Lower end of the 90 % interval"),
            high_rate=(REAL, "Upper end of the 90 % interval"),
            band=(TEXT, "trainable, saturated, too_hard or unknown"),
            **_RUN,
        ),
        _table(
            "trajectories",
            "One row per rollout, failed ones included",
            "trajectory_id",
            trajectory_id=(TEXT, "Identity: hash of task, environment, policy, sampling, index"),
            group_id=(TEXT, "Siblings on one task under one policy version"),
            **_TASK,
            level=(INT, "Difficulty of the task"),
            purpose=(TEXT, "train, solvability, evaluation or demonstration"),
            iteration=(INT, "Iteration that asked, from 0 (before training)"),
            temperature=(REAL, "0 is greedy"),
            max_new_tokens=(INT, "Limit per completion"),
            seed=(INT, "Sampling seed"),
            sample_index=(INT, "Index in its group, from 0"),
            first_policy=(TEXT, "Policy id of the first turn"),
            last_policy=(TEXT, "Policy id of the last turn"),
            num_turns=(INT, "Completions"),
            num_tokens=(INT, "Sampled tokens"),
            end_reason=(TEXT, "done, max_turns, truncated, agent_timeout or failed"),
            submission=(TEXT, "What was scored"),
            metrics_json=(TEXT, "Figures of the episode"),
            failure_cause=(TEXT, "Cause when the rollout failed, else null"),
            failure_detail=(TEXT, "What happened, else null"),
            sandbox=(TEXT, "Backend and version, or none"),
            started_at=(TEXT, "UTC time"),
            wall_s=(REAL, "Seconds from start to end"),
            **_RUN,
        ),
        _table(
            "turns",
            "One row per completion, with the exact tokens",
            "trajectory_id turn_index",
            trajectory_id=(TEXT, "Trajectory"),
            turn_index=(INT, "From 0"),
            domain=(TEXT, "Family of tasks"),
            prompt_ids=(TOKENS, "Context the completion saw"),
            completion_ids=(TOKENS, "Sampled tokens"),
            logprobs=(NATS, "Log-probabilities of the sampled tokens, nats"),
            completion=(TEXT, "Sampled text"),
            finish_reason=(TEXT, "stop or length"),
            policy_version=(TEXT, "Policy id"),
            action=(TEXT, "What the environment understood"),
            observation=(TEXT, "What it replied"),
            sample_s=(REAL, "Seconds of sampling, its batch shared"),
            act_s=(REAL, "Seconds in the environment"),
            state_hash=(TEXT, "Digest of the work dir after the reply; empty where none was taken, null in older rows"),
            images=(IMAGES, "Images of the reply: type, SHA-256, file; empty where it had none, null in older rows"),
            **_RUN,
        ),
        _table(
            "rewards",
            "What the verifier said of each trajectory, every term beside the scalar",
            "trajectory_id verifier_version",
            trajectory_id=(TEXT, "Trajectory"),
            task_id=(TEXT, "Task"),
            domain=(TEXT, "Family of tasks"),
            valid=(BOOL, "False: no reward, see cause"),
            reward=(REAL, "0..1, null when invalid"),
            passed=(BOOL, "The task is solved"),
            cause=(TEXT, "infra, sandbox, verifier, environment, engine, deadline or tampered; null when valid"),
            detail=(TEXT, "What happened; null when valid"),
            judged=(TEXT, "in_process, out_of_process or fresh_sandbox"),
            terms=(TERMS, "Named parts: value 0..1, weight, note"),
            verifier_version=(TEXT, "Version of the verifier"),
            verify_s=(REAL, "Seconds of verification"),
            **_RUN,
        ),
        _table(
            "batches",
            "Which trajectories a training batch saw, used or not",
            "batch_id trajectory_id",
            batch_id=(TEXT, "Identity"),
            kind=(TEXT, "sft or grpo"),
            iteration=(INT, "Iteration, 0 is the warm start"),
            policy_version=(TEXT, "Policy the batch was made for"),
            trajectory_id=(TEXT, "Trajectory"),
            group_id=(TEXT, "Its group"),
            domain=(TEXT, "Family of tasks"),
            in_baseline=(BOOL, "Its reward is part of its group's baseline"),
            used=(BOOL, "It is in the loss"),
            drop_reason=(TEXT, "invalid, no_signal or too_few_valid; null when used"),
            advantage=(REAL, "Weight in the loss; null when not used"),
            num_loss_tokens=(INT, "Tokens in the loss"),
            **_RUN,
        ),
        _table(
            "policies",
            "The ledger: every policy version and what made it",
            "policy_id",
            policy_id=(TEXT, "Identity, from the lineage"),
            name=(TEXT, "For people, e.g. v3"),
            kind=(TEXT, "base, sft or grpo"),
            parent=(TEXT, "Policy it was trained from; null for base"),
            uri=(TEXT, "Hugging Face directory or hub id"),
            batch_ids=(TEXTS, "Batches that made it from its parent"),
            num_updates=(INT, "Optimiser steps since the base"),
            metrics_json=(TEXT, "Figures of the training call"),
            created_at=(TEXT, "UTC time"),
            **_RUN,
        ),
        _table(
            "evaluations",
            "Held-out results per domain and policy version (greedy, 95 % Wilson interval)",
            "run_id policy_version domain",
            policy_version=(TEXT, "Policy id"),
            policy_name=(TEXT, "For people"),
            policy_kind=(TEXT, "base, sft or grpo"),
            iteration=(INT, "Iteration after which it was taken, 0 is before training"),
            domain=(TEXT, "Family of tasks"),
            num_tasks=(INT, "Held-out tasks"),
            num_valid=(INT, "Valid rollouts"),
            num_passed=(INT, "Passed"),
            pass_rate=(REAL, "passed / valid"),
            low_rate=(REAL, "Lower end of the interval"),
            high_rate=(REAL, "Upper end of the interval"),
            mean_reward=(REAL, "Mean reward of valid rollouts"),
            at_s=(REAL, "Seconds since the run began"),
            **_RUN,
        ),
        _table(
            "runs",
            "What happened when: one row per event of a run",
            "run_id event stage label iteration attempt",
            event=(TEXT, "started, resumed, stage or finished"),
            stage=(TEXT, "inspect, solvability, rollout, verify, gate, warm_start, train, evaluate, publish or run"),
            label=(TEXT, "Tells apart passes of one stage in one iteration, e.g. evaluation; may be empty"),
            iteration=(INT, "Iteration, 0 is before training"),
            attempt=(INT, "Times the run had been started or resumed, from 1"),
            name=(TEXT, "Name of the config"),
            config_digest=(TEXT, "Identity of the config"),
            ended_at=(TEXT, "UTC time of the event's end"),
            wall_s=(REAL, "Seconds it took"),
            data_json=(TEXT, "Figures, and the config on started"),
            **_RUN,
        ),
    )
}
