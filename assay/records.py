"""The records that travel through the pipeline, in path order. Each stage returns a new type.

    TaskSpec -> Evidence -> Certificate -> SolvabilityEstimate -> RolloutRequest -> Turn/Trajectory
             -> VerifiedTrajectory -> TrainingSample -> TrainingBatch -> PolicyVersion

`DatasetRef` is what flows hand around: where rows are, never the rows.
Counts start with `num_`, times end in `_s` (seconds), rates lie in 0..1 and end in `_rate`.
Times of day are UTC ISO-8601 text.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar, dataclass_transform

from assay.ids import content_hash, short_id

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A frozen, slotted, keyword-only dataclass."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def same_length(owner: str, **columns: Any) -> None:
    """Raise ValueError naming both columns and both lengths unless all are equally long."""
    (first, values), *rest = columns.items()
    for name, other in rest:
        if len(other) != len(values):
            raise ValueError(f"{owner}: {first} has {len(values)} entries but {name} has {len(other)}; they must match")


Split = Literal["train", "heldout"]
Purpose = Literal["train", "solvability", "evaluation", "demonstration"]


@record
class Image:
    """A picture as the policy gets it: the bytes of a PNG or JPEG file."""

    data: bytes
    media_type: Literal["image/png", "image/jpeg"] = "image/png"

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.data).hexdigest()


@record
class Message:
    """One chat message; `role` is system, user or assistant. `images` come before the text."""

    role: str
    content: str
    images: tuple[Image, ...] = ()


@record
class Tool:
    """Something the policy may call; `parameters` is the JSON schema (an object) of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@record
class Source:
    """Where tasks come from. `digest` is the SHA-256 of what was read, empty for what is generated here."""

    name: str
    licence: str
    version: str = ""
    uri: str = ""
    digest: str = ""


@record
class TaskSpec:
    """One problem to solve. `hidden` is never shown to the policy nor mounted in its sandbox.

    `template` names the generator's template instance and `answer_digest` hashes the answer: held-out and
    training tasks share neither. `content_hash` covers everything that decides what is asked and how it is scored;
    `source`, the task's provenance, is not part of it. `max_context_tokens` and `agent_timeout_s` (the time spent on
    the agent's actions) bound an episode where they are tighter than the run's own limits.
    """

    id: str
    domain: str
    environment_version: str
    split: Split
    level: int
    template: str
    answer_digest: str
    prompt: tuple[Message, ...]
    public: Mapping[str, Any]
    hidden: Mapping[str, Any]
    max_turns: int
    max_new_tokens: int
    tools: tuple[Tool, ...] = ()
    max_context_tokens: int | None = None
    agent_timeout_s: float | None = None
    source: Source | None = None
    content_hash: str = field(init=False)

    def __post_init__(self) -> None:
        content = [
            self.domain,
            self.environment_version,
            [[m.role, m.content, [image.digest for image in m.images]] for m in self.prompt],
            dict(self.public),
            dict(self.hidden),
            self.max_turns,
            self.max_new_tokens,
            [[tool.name, tool.description, dict(tool.parameters)] for tool in self.tools],
            self.max_context_tokens,
            self.agent_timeout_s,
        ]
        object.__setattr__(self, "content_hash", content_hash(content))


class Finding(StrEnum):
    """What a probe concluded. A probe that could not run leaves UNKNOWN, never CLEAR."""

    FOUND = "found"
    CLEAR = "clear"
    UNKNOWN = "unknown"


@record
class Evidence:
    """One probe's result on one task at one content hash. `tried` holds the inputs, so a person can repeat it."""

    task_id: str
    task_hash: str
    domain: str
    environment_version: str
    probe: str
    probe_version: str
    finding: Finding
    summary: str
    tried: Mapping[str, Any]
    seed: int
    wall_s: float
    num_sandboxes: int

    @property
    def id(self) -> str:
        return short_id(
            "e", [self.task_hash, self.environment_version, self.probe, self.probe_version, self.seed, self.finding]
        )


class TaskState(StrEnum):
    """Standing of a task: only TRUSTED tasks enter rollouts. DRAFT means evidence is missing."""

    DRAFT = "draft"
    TRUSTED = "trusted"
    QUARANTINED = "quarantined"


@record
class Certificate:
    """The standing that evidence gives a task at one content hash."""

    task_id: str
    task_hash: str
    domain: str
    environment_version: str
    state: TaskState
    reasons: tuple[str, ...]
    evidence_ids: tuple[str, ...]
    issued_at: str

    @property
    def id(self) -> str:
        return short_id("c", [self.task_hash, self.environment_version, self.state, sorted(self.evidence_ids)])


class Band(StrEnum):
    """Where a task stands for one policy version; only TRAINABLE groups are expected to carry signal."""

    TRAINABLE = "trainable"
    SATURATED = "saturated"
    TOO_HARD = "too_hard"
    UNKNOWN = "unknown"


@record
class SolvabilityEstimate:
    """Beta posterior of the pass rate of one task under one policy version (mean, 90 % interval)."""

    task_id: str
    task_hash: str
    domain: str
    policy_version: str
    num_valid: int
    num_passed: int
    pass_rate: float
    low_rate: float
    high_rate: float
    band: Band


@record
class SamplingParams:
    """How completions are drawn; temperature 0 is greedy, for which the seed plays no role."""

    temperature: float
    max_new_tokens: int
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


@record
class RolloutRequest:
    """One rollout to do. Its identity is a hash of task content, environment, policy, sampling and index."""

    task: TaskSpec
    policy_version: str
    sampling: SamplingParams
    index: int
    purpose: Purpose
    run_id: str

    @property
    def group_id(self) -> str:
        return short_id("g", self._identity())

    @property
    def id(self) -> str:
        return short_id("t", [*self._identity(), self.index])

    def _identity(self) -> list[Any]:
        sampling = asdict(self.sampling) | ({"seed": 0} if self.sampling.greedy else {})
        return [self.task.content_hash, self.task.environment_version, self.policy_version, sampling]


FinishReason = Literal["stop", "length"]


@record
class Turn:
    """One completion and the reply to it, with exactly the tokens that were sampled.

    `prompt_ids` [P] is the whole context the completion saw, `completion_ids` [C] and `logprobs` [C] (nats, under
    the sampling distribution) are what was drawn. `observation` is the environment's reply, empty on the last turn.
    `state_hash` is the digest of the episode's work dir after the reply, empty where none was taken. `images` belong
    to the observation.
    """

    index: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    completion: str
    finish_reason: FinishReason
    policy_version: str
    action: str
    observation: str
    sample_s: float
    act_s: float
    state_hash: str = ""
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        same_length(f"Turn {self.index}", completion_ids=self.completion_ids, logprobs=self.logprobs)


class Cause(StrEnum):
    """Why a trajectory has no reward. The agent's own time-out and truncation are graded instead."""

    INFRA = "infra"
    SANDBOX = "sandbox"
    VERIFIER = "verifier"
    ENVIRONMENT = "environment"
    ENGINE = "engine"
    DEADLINE = "deadline"
    TAMPERED = "tampered"


@record
class Failure:
    """What went wrong outside the policy's control."""

    cause: Cause
    detail: str


EndReason = Literal["done", "max_turns", "truncated", "agent_timeout", "failed"]


@record
class Trajectory:
    """The record of one rollout. `failure` is set exactly when `end` is `failed`; `submission` is what is scored."""

    id: str
    group_id: str
    run_id: str
    task_id: str
    task_hash: str
    domain: str
    level: int
    environment_version: str
    purpose: Purpose
    sampling: SamplingParams
    index: int
    first_policy: str
    last_policy: str
    turns: tuple[Turn, ...]
    end: EndReason
    submission: str
    metrics: Mapping[str, float]
    failure: Failure | None
    sandbox: str
    started_at: str
    wall_s: float

    def __post_init__(self) -> None:
        if (self.failure is not None) != (self.end == "failed"):
            raise ValueError(f"Trajectory {self.id}: end is {self.end!r} but failure is {self.failure!r}")

    @property
    def num_tokens(self) -> int:
        """Sampled tokens over all turns."""
        return sum(len(turn.completion_ids) for turn in self.turns)


@record
class RewardTerm:
    """One named part of a reward: `value` in 0..1, `weight` its share; weight 0 makes it a metric."""

    name: str
    value: float
    weight: float
    note: str = ""


Judging = Literal["in_process", "out_of_process", "fresh_sandbox"]


@record
class Verdict:
    """`valid(reward in 0..1)` or `invalid(cause)`; build it with the two class methods."""

    reward: float | None
    passed: bool
    failure: Failure | None
    terms: tuple[RewardTerm, ...]
    judged: Judging

    def __post_init__(self) -> None:
        if (self.reward is None) == (self.failure is None):
            raise ValueError("A verdict is either valid with a reward or invalid with a failure")
        if self.reward is not None and not (math.isfinite(self.reward) and 0.0 <= self.reward <= 1.0):
            raise ValueError(f"Reward {self.reward!r} is outside 0..1")

    @property
    def valid(self) -> bool:
        return self.failure is None

    @classmethod
    def of(cls, terms: tuple[RewardTerm, ...], *, passed: bool, judged: Judging) -> "Verdict":
        """Valid: the weighted sum of the terms, whose weights sum to 1, to twelve digits: a perfect score is 1.0."""
        reward = min(1.0, max(0.0, round(math.fsum(term.value * term.weight for term in terms), 12)))
        return cls(reward=reward, passed=passed, failure=None, terms=terms, judged=judged)

    @classmethod
    def invalid(cls, cause: Cause, detail: str, *, judged: Judging = "in_process") -> "Verdict":
        """Invalid: no reward, counted by cause, never in a baseline."""
        return cls(reward=None, passed=False, failure=Failure(cause=cause, detail=detail), terms=(), judged=judged)


@record
class VerifiedTrajectory:
    """A trajectory and what the verifier said of it."""

    trajectory: Trajectory
    verdict: Verdict
    verifier_version: str
    verify_s: float


@record
class TrainingSample:
    """What the trainer sees of one trajectory, in one sequence of L tokens.

    `token_ids` [L] starts with the `prompt_len` tokens the group shares; `loss_mask` [L] is 1 on sampled tokens;
    `logprobs` [L] are those of sampling (nats) at `temperature`, 0 elsewhere; `advantage` applies to every sampled
    token. `images` are those that the policy saw, in the order of their placeholders.
    """

    trajectory_id: str
    group_id: str
    prompt_len: int
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantage: float
    temperature: float = 1.0
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        same_length(
            f"Sample {self.trajectory_id}", token_ids=self.token_ids, loss_mask=self.loss_mask, logprobs=self.logprobs
        )


@record
class TrainingBatch:
    """Samples for one training call and the count of what was left out, by reason."""

    policy_version: str
    kind: Literal["grpo", "sft"]
    samples: tuple[TrainingSample, ...]
    dropped: Mapping[str, int]

    @property
    def id(self) -> str:
        rows = sorted([s.trajectory_id, round(s.advantage, 9)] for s in self.samples)
        return short_id("b", [self.policy_version, self.kind, rows])


@record
class PolicyVersion:
    """One set of weights. `id` follows from the lineage: parent, kind, batch and trainer settings.

    `name` is for people (`v3`); `uri` is a Hugging Face directory or a hub id.
    """

    id: str
    name: str
    kind: Literal["base", "sft", "grpo"]
    parent: str | None
    uri: str
    batch_ids: tuple[str, ...]
    run_id: str
    num_updates: int
    metrics: Mapping[str, float]
    created_at: str


@record
class DatasetRef:
    """Where committed rows are: `part` names the commit inside `table`."""

    table: str
    part: str
    uri: str
    num_rows: int
    digest: str
