"""One GRPO step, sampling and update, of the embedded trainer and of TRL's GRPOTrainer.

Both sides have the same model, prompts, number of tokens, reward, temperature, learning rate, threads and precision,
and take turns: while one works the other waits. TRL lives in an environment of its own, `.venv-trl`, made on first use.
"""

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path

from assay.errors import EngineError, TrainingError
from assay.processor import fast_dtype
from assay.records import SamplingParams, TrainingBatch, TrainingSample
from assay.registry import build_plugin
from benchmarks.engines import prompt_ids
from benchmarks.report import Comparison, Round
from benchmarks.trl_side import Trl, ensure_trl
from benchmarks.workload import LEARNING_RATE, TEMPERATURE, Workload, a_policy, endless_model, reward
from rollouts.engines.base import Completion, Engine, SampleRequest
from training.advantages import group_standings
from training.backends.base import Trainer

OURS, THEIRS = "embedded", "trl"


async def run(workload: Workload, steps: int) -> Comparison:
    """`steps` rounds after one that warms up."""
    model, python = endless_model(), ensure_trl()
    rounds: dict[str, list[Round]] = {OURS: [], THEIRS: []}
    with tempfile.TemporaryDirectory(prefix="assay-benchmark-") as folder:
        ours = Embedded(model, Path(folder), workload)
        trl = Trl(python, model, Path(folder), workload, steps + 1, _dtype())
        try:
            for step in range(steps + 1):
                measured = {OURS: await ours.step(step), THEIRS: await asyncio.to_thread(trl.step)}
                if step:
                    for name, side in measured.items():
                        rounds[name].append(side)
        finally:
            trl.close()
            await ours.close()
    what = (
        f"One GRPO step: {workload.groups} prompts x {workload.samples} completions of {workload.tokens} tokens, "
        "sampled and learned from"
    )
    return Comparison(what, OURS, THEIRS, rounds, {"trl": _trl_version(python), "precision": _dtype()})


class Embedded:
    """The embedded engine and trainer, as a run uses them: weights go from one to the other in memory."""

    def __init__(self, model: Path, folder: Path, workload: Workload) -> None:
        self.workload = workload
        self.model = model
        self.engine: Engine = build_plugin("engine", "transformers", {})
        self.trainer: Trainer = build_plugin("trainer", "embedded", {"learning_rate": LEARNING_RATE})
        self.trainer.load(a_policy(model, "base"), folder / "experiment")

    async def step(self, index: int) -> Round:
        """Load the newest weights, sample, learn."""
        sampling = SamplingParams(temperature=TEMPERATURE, max_new_tokens=self.workload.tokens)
        started = time.perf_counter()
        await self.engine.load(a_policy(self.model, f"v{index}"), self.trainer.live)
        requests = [
            SampleRequest(prompt_ids=ids, num_samples=self.workload.samples, sampling=sampling, seed=index)
            for ids in prompt_ids(self.engine, self.workload, index)
        ]
        groups = await asyncio.gather(*map(self.engine.sample, requests))
        sampled = time.perf_counter()
        batch = a_batch(index, requests, groups)
        await asyncio.to_thread(self.trainer.train, batch)
        ended = time.perf_counter()
        num_tokens = sum(sum(sample.loss_mask) for sample in batch.samples)
        if num_tokens != self.workload.num_tokens:
            raise EngineError(f"{num_tokens} tokens were learned from instead of {self.workload.num_tokens}.")
        return Round({"generate": sampled - started, "train": ended - sampled}, num_tokens)

    async def close(self) -> None:
        await self.engine.close()
        self.trainer.close()


def a_batch(index: int, requests: list[SampleRequest], groups: list[list[Completion]]) -> TrainingBatch:
    """The step's samples with advantages relative to their group. TrainingError when a group has no signal."""
    samples = []
    for number, (request, group) in enumerate(zip(requests, groups, strict=True)):
        standings = group_standings([reward(completion.token_ids) for completion in group])
        for member, (completion, standing) in enumerate(zip(group, standings, strict=True)):
            if standing.advantage is None:
                raise TrainingError(f"Group {number} has no signal ({standing.drop_reason}); use more tokens.")
            samples.append(_sample(f"{index}/{number}", member, request, completion, standing.advantage))
    return TrainingBatch(policy_version=f"v{index}", kind="grpo", samples=tuple(samples), dropped={})


def _sample(
    group: str, member: int, request: SampleRequest, completion: Completion, advantage: float
) -> TrainingSample:
    num_prompt, num_sampled = len(request.prompt_ids), len(completion.token_ids)
    return TrainingSample(
        trajectory_id=f"{group}/{member}",
        group_id=group,
        prompt_len=num_prompt,
        token_ids=request.prompt_ids + completion.token_ids,
        loss_mask=(0,) * num_prompt + (1,) * num_sampled,
        logprobs=(0.0,) * num_prompt + completion.logprobs,
        advantage=advantage,
        temperature=TEMPERATURE,
    )


def _dtype() -> str:
    """What the embedded side computes in on this processor; TRL gets the same."""
    return str(fast_dtype()).removeprefix("torch.")


def _trl_version(python: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('trl'), 'with transformers', m.version('transformers'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
