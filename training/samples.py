"""Verified trajectories -> the samples of one training batch, and what became of every trajectory.

The tokens are exactly those that were sampled. What the environment said between two completions is context: in the
sequence, but masked out of the loss.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from assay.errors import TrainingError
from assay.records import Image, TrainingBatch, TrainingSample, Trajectory, VerifiedTrajectory
from training.advantages import Standing, group_standings

Kind = Literal["grpo", "sft"]
_NO_IMAGES: Mapping[str, tuple[Image, ...]] = {}


def make_batch(
    judged: Sequence[VerifiedTrajectory],
    *,
    kind: Kind,
    policy_version: str,
    min_valid: int = 2,
    normalise: bool = True,
    prompt_images: Mapping[str, tuple[Image, ...]] = _NO_IMAGES,
) -> tuple[TrainingBatch, list[dict[str, Any]]]:
    """The batch, and one row of table `batches` (but `run_id` and `iteration`) per trajectory, used or not.

    grpo: advantages are relative to the group (`group_standings`). sft: every passed trajectory is imitated with
    weight 1; the others are dropped. `prompt_images` are those of the tasks' prompts, by task hash. Raises
    TrainingError when tokens can't be what the policy saw (see `training_sample`).
    """
    standings = _imitated(judged) if kind == "sft" else _compared(judged, min_valid, normalise)
    samples = {
        v.trajectory.id: training_sample(v.trajectory, s.advantage, prompt_images.get(v.trajectory.task_hash, ()))
        for v, s in zip(judged, standings, strict=True)
        if s.advantage is not None
    }
    batch = TrainingBatch(
        policy_version=policy_version,
        kind=kind,
        samples=tuple(samples.values()),
        dropped=dict(Counter(s.drop_reason for s in standings if s.drop_reason is not None)),
    )
    rows = [_row(batch, v.trajectory, s, samples) for v, s in zip(judged, standings, strict=True)]
    return batch, rows


def training_sample(trajectory: Trajectory, advantage: float, prompt_images: tuple[Image, ...] = ()) -> TrainingSample:
    """All turns in one sequence: the group's prompt, then completions (in the loss) and replies (not).

    Raises TrainingError when a turn's context does not extend what was said before (token in, token out is broken),
    or when sampling was greedy, whose log-probabilities can't correct anything.
    """
    if not trajectory.turns:
        raise TrainingError(f"Trajectory {trajectory.id} has no turns, so there is nothing to learn from it.")
    token_ids: tuple[int, ...] = ()
    mask: list[int] = []
    logprobs: list[float] = []
    for turn in trajectory.turns:
        if turn.prompt_ids[: len(token_ids)] != token_ids:
            raise TrainingError(
                f"Trajectory {trajectory.id}: the context of turn {turn.index} does not extend the tokens of the turns "
                "before it. Contexts must be built from the sampled ids (token in, token out)."
            )
        num_context = len(turn.prompt_ids) - len(token_ids)
        token_ids = turn.prompt_ids + turn.completion_ids
        mask += [0] * num_context + [1] * len(turn.completion_ids)
        logprobs += [0.0] * num_context + list(turn.logprobs)
    return TrainingSample(
        trajectory_id=trajectory.id,
        group_id=trajectory.group_id,
        prompt_len=len(trajectory.turns[0].prompt_ids),
        token_ids=token_ids,
        loss_mask=tuple(mask),
        logprobs=tuple(logprobs),
        advantage=advantage,
        temperature=trajectory.sampling.temperature or 1.0,
        images=(*prompt_images, *(image for turn in trajectory.turns for image in turn.images)),
    )


def _compared(judged: Sequence[VerifiedTrajectory], min_valid: int, normalise: bool) -> list[Standing]:
    """One standing per trajectory, in order, whatever order the groups' members come in."""
    groups: dict[str, list[int]] = {}
    for i, item in enumerate(judged):
        if item.trajectory.sampling.greedy and item.trajectory.purpose != "demonstration":
            raise TrainingError(
                f"Trajectory {item.trajectory.id} was sampled greedily (temperature 0); its siblings are copies. "
                "Train on rollouts with a temperature above 0."
            )
        groups.setdefault(item.trajectory.group_id, []).append(i)
    standings: dict[int, Standing] = {}
    for members in groups.values():
        rewards = [judged[i].verdict.reward for i in members]
        compared = group_standings(rewards, min_valid=min_valid, normalise=normalise)
        standings |= dict(zip(members, compared, strict=True))
    return [standings[i] for i in range(len(judged))]


def _imitated(judged: Sequence[VerifiedTrajectory]) -> list[Standing]:
    return [
        Standing(advantage=1.0, drop_reason=None, in_baseline=False)
        if item.verdict.passed
        else Standing(advantage=None, drop_reason="no_signal" if item.verdict.valid else "invalid", in_baseline=False)
        for item in judged
    ]


def _row(
    batch: TrainingBatch, trajectory: Trajectory, standing: Standing, samples: dict[str, TrainingSample]
) -> dict[str, Any]:
    sample = samples.get(trajectory.id)
    return {
        "batch_id": batch.id,
        "kind": batch.kind,
        "policy_version": batch.policy_version,
        "trajectory_id": trajectory.id,
        "group_id": trajectory.group_id,
        "domain": trajectory.domain,
        "in_baseline": standing.in_baseline,
        "used": sample is not None,
        "drop_reason": standing.drop_reason,
        "advantage": standing.advantage,
        "num_loss_tokens": sum(sample.loss_mask) if sample else 0,
    }
