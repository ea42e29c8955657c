"""Models get better: a tiny one over a warm start and fifteen steps, the embedded one over a single step."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assay.ids import derive_seed
from assay.records import (
    Message,
    PolicyVersion,
    SamplingParams,
    TaskSpec,
    TrainingBatch,
    Trajectory,
    Turn,
    Verdict,
    VerifiedTrajectory,
)
from assay.registry import build_plugin
from rollouts.chat import ChatTokenizer
from rollouts.engines.base import Completion, SampleRequest
from rollouts.engines.transformers import TransformersEngine
from tests.builders import a_request, a_trajectory, a_turn, a_verdict, a_verified
from tests.sort_letters import SortLetters
from tests.training.making import a_batch, a_policy, a_sample
from training.backends.embedded import EmbeddedTrainer
from training.embedded_model import ensure_embedded_model
from training.samples import make_batch
from training.tiny_model import build_tiny_model

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = SortLetters(SortLetters.Config())
HELDOUT = [DOMAIN.make_task("heldout", i, 0) for i in range(64)]


@pytest.fixture
async def engine() -> AsyncIterator[TransformersEngine]:
    engine: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 1, "dtype": "float32"})
    yield engine
    await engine.close()


async def draw(
    engine: TransformersEngine, tasks: Sequence[TaskSpec], *, num: int, seed: int
) -> list[tuple[TaskSpec, tuple[int, ...], list[Completion]]]:
    """`num` completions per task at temperature 1, all tasks at once."""
    requests = [
        SampleRequest(
            prompt_ids=engine.encode_chat(task.prompt),
            num_samples=num,
            sampling=SamplingParams(temperature=1.0, max_new_tokens=task.max_new_tokens),
            seed=derive_seed(seed, task.id),
        )
        for task in tasks
    ]
    drawn = await asyncio.gather(*map(engine.sample, requests))
    return [(t, r.prompt_ids, completions) for t, r, completions in zip(tasks, requests, drawn, strict=True)]


def trajectory(task: TaskSpec, index: int, prompt_ids: tuple[int, ...], said: Completion) -> Trajectory:
    turn: Turn = replace(a_turn(), prompt_ids=prompt_ids, completion_ids=said.token_ids, logprobs=said.logprobs)
    return replace(a_trajectory(a_request(task, index=index)), turns=(turn,))


def judge(engine: TransformersEngine, task: TaskSpec, said: Completion) -> Verdict:
    answer, given = task.hidden["answer"], engine.decode(said.token_ids)
    share = sum(a == b for a, b in zip(answer, given, strict=False)) / 4 if len(given) == 4 else 0.0
    return a_verdict(share)


async def pass_rate(engine: TransformersEngine) -> float:
    drawn = await draw(engine, HELDOUT, num=4, seed=-1)
    passed = [judge(engine, task, c).passed for task, _, completions in drawn for c in completions]
    return sum(passed) / len(passed)


def noisy_demonstrations(chat: ChatTokenizer, num: int) -> TrainingBatch:
    """Sorted letters, three times in ten shuffled again: a start that leaves something to learn."""
    rng = random.Random(0)
    samples = []
    for task in (DOMAIN.make_task("train", i, 0) for i in range(num)):
        answer = task.hidden["answer"]
        shown = "".join(rng.sample(answer, 4)) if rng.random() < 0.3 else answer
        said = chat.encode_completion(shown)
        samples.append(a_sample(task.id, task.id, chat.encode_chat(task.prompt), (said, True)))
    return a_batch(samples, "sft")


async def test_a_tiny_model_learns_to_sort_letters(engine: TransformersEngine, tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", layers=2)
    options = {
        "dtype": "float32",
        "sft_batch_size": 64,
        "sft_learning_rate": 4e-3,
        "learning_rate": 1e-3,
        "max_pack_tokens": 4000,
    }
    trainer: EmbeddedTrainer = build_plugin("trainer", "embedded", {"num_threads": 1, **options})
    policy: PolicyVersion = a_policy(model)
    trainer.load(policy, tmp_path / "run")
    trainer.train(noisy_demonstrations(ChatTokenizer(str(model)), 2000))
    await engine.load(policy, trainer.live)
    warm = await pass_rate(engine)
    for step in range(15):
        tasks = [DOMAIN.make_task("train", 10_000 + 16 * step + i, 0) for i in range(16)]
        judged: list[VerifiedTrajectory] = [
            a_verified(trajectory(task, i, prompt_ids, said), judge(engine, task, said))
            for task, prompt_ids, completions in await draw(engine, tasks, num=8, seed=step)
            for i, said in enumerate(completions)
        ]
        batch, _ = make_batch(judged, kind="grpo", policy_version=policy.id)
        metrics = trainer.train(batch).metrics
        assert metrics["mismatch"] < 1e-3, "engine and trainer disagree about what was sampled"
        await engine.load(policy, trainer.live)
    assert 0.1 < warm < 0.4
    assert await pass_rate(engine) > warm + 0.12
    trainer.close()


async def test_one_step_of_the_embedded_model_favours_what_was_rewarded(
    engine: TransformersEngine, tmp_path: Path
) -> None:
    model = ensure_embedded_model(ROOT / ".assay" / "models" / "smollm2-135m-instruct")
    policy = a_policy(model)
    await engine.load(policy)
    tasks = [
        replace(HELDOUT[0], id=city, prompt=(Message(role="user", content=f"Name a dish from {city}."),))
        for city in ("Rome", "Paris", "Tokyo", "Lima")
    ]
    tasks = [replace(task, max_new_tokens=12) for task in tasks]
    drawn = await draw(engine, tasks, num=4, seed=0)
    judged = [
        a_verified(trajectory(task, i, prompt_ids, said), a_verdict(float(i < 2)))
        for task, prompt_ids, completions in drawn
        for i, said in enumerate(completions)
    ]
    batch, _ = make_batch(judged, kind="grpo", policy_version=policy.id)
    trainer: EmbeddedTrainer = build_plugin(
        "trainer", "embedded", {"num_threads": 1, "dtype": "float32", "resumable": False}
    )
    trainer.load(policy, tmp_path / "run")
    first = trainer.train(batch).metrics
    second = trainer.train(batch).metrics
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-3)
    assert second["loss"] < first["loss"] - 0.02
    trainer.close()
