"""The vLLM engine against a real vLLM server on this machine; skipped where `make vllm` was not run."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

from assay.errors import EngineError, EngineUnreachable
from assay.records import Message, PolicyVersion, SamplingParams
from assay.settings import settings
from rollouts.engines import _vllm_link
from rollouts.engines._vllm_server import on_cuda, served_dtype
from rollouts.engines.base import Completion, SampleRequest
from rollouts.engines.vllm import VllmEngine
from tests.models import teacher_forced
from training.tiny_model import build_tiny_model

PYTHON = os.environ.get("ASSAY_VLLM_PYTHON", str(Path(".venv-vllm/bin/python").absolute()))
pytestmark = pytest.mark.skipif(not Path(PYTHON).exists(), reason="no vLLM environment: run `make vllm`")

TEMPERATURE = 0.8
# Mean difference in nats to teacher forcing in float32: rounding of bfloat16, or of the order of sums.
MISMATCH = {"bfloat16": 0.05, "float32": 0.001}


@dataclass(frozen=True)
class Running:
    """An engine whose server runs, and two models that differ in their weights."""

    engine: VllmEngine
    first: Path
    second: Path

    def load(self, model: Path, live: Any | None = None) -> None:
        asyncio.run(self.engine.load(a_policy(model), live))

    def sample(self, prompt: str = "dbac", **changes: Any) -> list[Completion]:
        return asyncio.run(self.engine.sample(self.request(prompt, **changes)))

    def request(
        self, prompt: str = "dbac", *, n: int = 8, temperature: float = TEMPERATURE, tokens: int = 24, seed: int = 0
    ) -> SampleRequest:
        return SampleRequest(
            prompt_ids=self.engine.encode_chat([Message(role="user", content=prompt)]),
            num_samples=n,
            sampling=SamplingParams(temperature=temperature, max_new_tokens=tokens),
            seed=seed,
        )


def a_policy(uri: Path | str) -> PolicyVersion:
    return PolicyVersion(
        id=f"p_{Path(uri).name}",
        name="v1",
        kind="base",
        parent=None,
        uri=str(uri),
        batch_ids=(),
        run_id="r",
        num_updates=0,
        metrics={},
        created_at="2026-01-01T00:00:00Z",
    )


@pytest.fixture(scope="module", autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings for the module's server, which is started before a test's own settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("ASSAY_VLLM_PYTHON", PYTHON)
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest.fixture(scope="module")
def running(machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    first, second = (build_tiny_model(folder / name, seed) for seed, name in enumerate(("first", "second")))
    others = {child.pid for child in psutil.Process().children(recursive=True)}
    engine = VllmEngine(VllmEngine.Config(max_num_seqs=32))
    asyncio.run(engine.load(a_policy(first)))
    before = {child.pid for child in psutil.Process().children(recursive=True)} - others
    assert before, "the server runs under this process"
    yield Running(engine, first, second)
    asyncio.run(engine.close())
    left = {child.pid for child in psutil.Process().children(recursive=True)} & before
    assert not left, f"processes {left} outlived the engine"


def mismatch(model: Any, prompt_ids: tuple[int, ...], completions: list[Completion], temperature: float) -> float:
    """Mean absolute difference (nats) to the model's own log-probabilities."""
    differences: list[float] = []
    for said in completions:
        own = teacher_forced(model, prompt_ids, said.token_ids, temperature)
        differences += (abs(a - b) for a, b in zip(own, said.logprobs, strict=True))
    return mean(differences)


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.0])
def test_logprobs_are_those_of_the_distribution_sampled_from(running: Running, temperature: float) -> None:
    running.load(running.first)
    model = AutoModelForCausalLM.from_pretrained(running.first, dtype=torch.float32)
    completions = running.sample(temperature=temperature)
    prompt_ids = running.request().prompt_ids
    assert mismatch(model, prompt_ids, completions, temperature) < MISMATCH[served_dtype()]
    assert mismatch(model, prompt_ids, completions, temperature * 0.7) > 2 * MISMATCH[served_dtype()]


def test_a_published_version_replaces_the_weights_and_can_be_taken_back(running: Running) -> None:
    models = {p: AutoModelForCausalLM.from_pretrained(p, dtype=torch.float32) for p in (running.first, running.second)}
    for served, other in ((running.second, running.first), (running.first, running.second)):
        running.load(served)
        completions, prompt_ids = running.sample(), running.request().prompt_ids
        assert running.engine.policy_version == f"p_{served.name}"
        assert mismatch(models[served], prompt_ids, completions, TEMPERATURE) < MISMATCH[served_dtype()]
        assert mismatch(models[other], prompt_ids, completions, TEMPERATURE) > 2 * MISMATCH[served_dtype()]


def test_live_weights_are_taken_from_memory(running: Running) -> None:
    live = AutoModelForCausalLM.from_pretrained(running.first, dtype=torch.float32)
    running.load(running.first)
    for _ in range(2):
        with torch.no_grad():
            for parameter in live.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        running.load(running.first, live)
        completions = running.sample()
        assert mismatch(live, running.request().prompt_ids, completions, TEMPERATURE) < MISMATCH[served_dtype()]


def test_a_completion_ends_with_the_end_token_or_at_the_limit(running: Running) -> None:
    running.load(running.first)
    ends = running.engine._chat().stop_token_ids
    completions = running.sample(n=24, tokens=60, temperature=1.0)
    assert {c.finish_reason for c in completions} == {"stop", "length"}
    for completion in completions:
        assert (completion.token_ids[-1] in ends) == (completion.finish_reason == "stop")
        assert not ends & set(completion.token_ids[:-1])
        assert len(completion.token_ids) == 60 or completion.finish_reason == "stop"


def test_equal_seeds_give_equal_completions(running: Running) -> None:
    running.load(running.first)
    assert running.sample(seed=2**63 - 1) == running.sample(seed=2**63 - 1)
    assert running.sample(seed=1) != running.sample(seed=2)
    assert len({c.token_ids for c in running.sample()}) == 8


def test_greedy_completions_are_equal_and_the_most_likely(running: Running) -> None:
    running.load(running.first)
    first, second = running.sample(n=2, temperature=0.0, tokens=3)
    model = AutoModelForCausalLM.from_pretrained(running.first, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([running.request().prompt_ids])).logits[0, -1]
    assert first == second
    assert first.token_ids[0] == int(logits.argmax())


def test_many_prompts_of_many_lengths_at_once_come_back_whole(running: Running) -> None:
    """More tokens than the server takes in one step, with seeds: this once killed it."""
    running.load(running.first)

    async def sample_all() -> list[list[Completion]]:
        requests = [running.request("abcd" * (1 + 11 * i), n=4, tokens=12, seed=i) for i in range(20)]
        return await asyncio.gather(*map(running.engine.sample, requests))

    groups = asyncio.run(sample_all())
    assert [len(group) for group in groups] == [4] * 20


def test_a_prompt_beyond_the_context_is_refused_and_the_server_goes_on(running: Running) -> None:
    running.load(running.first)
    with pytest.raises(EngineError, match="status 400"):
        running.sample("a" * 2000)
    assert len(running.sample()) == 8


@pytest.mark.slow
def test_a_server_that_is_killed_is_reported_with_its_log_and_started_anew(running: Running) -> None:
    running.load(running.first)
    started = psutil.Process().children(recursive=True)
    (server,) = (child for child in started if child.cmdline()[1:3] == ["-m", "vllm.entrypoints.openai.api_server"])
    server.kill()
    with pytest.raises(EngineUnreachable, match="Its log ends"):
        running.sample()
    _, left = psutil.wait_procs(started, timeout=20)
    assert not left, "the watchdog ends the processes of a server that died"
    running.load(running.second)
    assert len(running.sample()) == 8


@pytest.mark.slow
def test_a_server_with_raw_logprobs_is_found_out_by_what_it_does(running: Running) -> None:
    engine = VllmEngine(VllmEngine.Config(extra_args=("--logprobs-mode", "raw_logprobs")))
    with pytest.raises(EngineError, match="before temperature"):
        asyncio.run(engine.load(a_policy(running.first)))


@pytest.mark.slow
@pytest.mark.skipif(on_cuda(), reason="the fault is one of vLLM's CPU build")
def test_reloads_that_leave_the_tied_output_layer_stale_are_found_out(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vllm_link, "RELOAD_METHOD", "reload_weights")
    engine = VllmEngine(VllmEngine.Config())
    with pytest.raises(EngineError, match="does not compute with the weights it reloads"):
        asyncio.run(engine.load(a_policy(running.first)))
