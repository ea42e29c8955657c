"""Tokens per second of the two engines: the same prompts and token counts, in turn, in one run."""

import asyncio
import time
from pathlib import Path

from assay.errors import EngineError
from assay.records import Message, SamplingParams
from assay.registry import build_plugin
from assay.settings import settings
from benchmarks.report import Comparison, Round
from benchmarks.workload import TEMPERATURE, Workload, a_policy, endless_model
from rollouts.engines.base import Engine, SampleRequest

ENGINES = ("transformers", "vllm")


async def run(workload: Workload, steps: int) -> Comparison:
    """`steps` rounds after one that warms up. Raises ConfigurationError without a vLLM environment (`make vllm`)."""
    model = endless_model()
    engines: dict[str, Engine] = {name: build_plugin("engine", name, {}) for name in ENGINES}
    try:
        for engine in engines.values():
            await engine.load(a_policy(model, "base"))
        rounds: dict[str, list[Round]] = {name: [] for name in ENGINES}
        for step in range(steps + 1):
            for name, engine in engines.items():
                measured = await sample_round(engine, workload, step)
                if step:
                    rounds[name].append(measured)
    finally:
        for engine in engines.values():
            await engine.close()
    what = f"Sampling {workload.groups} x {workload.samples} completions of {workload.tokens} tokens"
    return Comparison(what, "vllm", "transformers", rounds, {"vllm": _vllm_version()})


async def sample_round(engine: Engine, workload: Workload, step: int) -> Round:
    """One round's completions; EngineError unless they have exactly the workload's tokens."""
    sampling = SamplingParams(temperature=TEMPERATURE, max_new_tokens=workload.tokens)
    requests = [
        SampleRequest(prompt_ids=ids, num_samples=workload.samples, sampling=sampling, seed=step)
        for ids in prompt_ids(engine, workload, step)
    ]
    started = time.perf_counter()
    groups = await asyncio.gather(*map(engine.sample, requests))
    elapsed = time.perf_counter() - started
    num_tokens = sum(len(completion.token_ids) for group in groups for completion in group)
    if num_tokens != workload.num_tokens:
        raise EngineError(f"The {engine.id} engine sampled {num_tokens} tokens instead of {workload.num_tokens}.")
    return Round({"sample": elapsed}, num_tokens)


def prompt_ids(engine: Engine, workload: Workload, step: int) -> list[tuple[int, ...]]:
    """The round's prompts as the engine's tokenizer has them."""
    return [engine.encode_chat([Message(role="user", content=text[:-1])]) for text in workload.prompts(step)]


def _vllm_version() -> str:
    packages = Path(settings().vllm_executable).parent.parent.glob("lib/python*/site-packages/vllm*.dist-info")
    return next((path.name.removesuffix(".dist-info").split("-")[-1] for path in packages), "unknown")
