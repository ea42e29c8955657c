"""Samples and batches of tokens the tiny model knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from assay.records import PolicyVersion, TrainingBatch, TrainingSample


def a_policy(uri: Path | str, *, num_updates: int = 0) -> PolicyVersion:
    return PolicyVersion(
        id="p_test",
        name="v0",
        kind="base",
        parent=None,
        uri=str(uri),
        batch_ids=(),
        run_id="r",
        num_updates=num_updates,
        metrics={},
        created_at="2026-01-01T00:00:00+00:00",
    )


def a_sample(
    name: str,
    group: str,
    prompt: Sequence[int],
    *parts: tuple[Sequence[int], bool],
    advantage: float = 1.0,
    logprob: float = -2.0,
    temperature: float = 1.0,
) -> TrainingSample:
    """`parts` follow the prompt: (tokens, are they in the loss)."""
    tokens, mask = list(prompt), [0] * len(prompt)
    for ids, in_loss in parts:
        tokens += ids
        mask += [int(in_loss)] * len(ids)
    return TrainingSample(
        trajectory_id=name,
        group_id=group,
        prompt_len=len(prompt),
        token_ids=tuple(tokens),
        loss_mask=tuple(mask),
        logprobs=tuple(logprob * m for m in mask),
        advantage=advantage,
        temperature=temperature,
    )


def a_batch(samples: Sequence[TrainingSample], kind: Literal["grpo", "sft"] = "grpo") -> TrainingBatch:
    return TrainingBatch(policy_version="p_test", kind=kind, samples=tuple(samples), dropped={})
