"""The embedded engine's own promises: nothing is computed twice, weights are copies, faults reach who asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from assay.errors import ConfigurationError, EngineError
from assay.records import PolicyVersion, SamplingParams
from assay.registry import build_plugin
from rollouts.engines._decoder import Decoder, Job
from rollouts.engines._prefixes import Context, PrefixCache
from rollouts.engines._weights import PackedLinear, read_policy
from rollouts.engines.base import Completion, SampleRequest
from rollouts.engines.transformers import TransformersEngine
from tests.models import small_model, teacher_forced
from tests.training.making import a_policy
from training.tiny_model import build_tiny_model

PROMPT = tuple(range(10, 22))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=2, hidden=64)


@pytest.fixture
async def engine(model: Path) -> AsyncIterator[TransformersEngine]:
    engine: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 1})
    await engine.load(a_policy(model))
    yield engine
    await engine.close()


def a_request(
    prompt: tuple[int, ...] = PROMPT, *, num: int = 4, temperature: float = 1.0, limit: int = 6, seed: int = 0
) -> SampleRequest:
    sampling = SamplingParams(temperature=temperature, max_new_tokens=limit)
    return SampleRequest(prompt_ids=prompt, num_samples=num, sampling=sampling, seed=seed)


class Counting:
    """A model that counts the tokens it is asked to compute."""

    def __init__(self, model: Any) -> None:
        self.model, self.num_tokens = model, 0

    def __call__(self, **inputs: Any) -> Any:
        self.num_tokens += inputs["input_ids"].numel()
        return self.model(**inputs)


class Bench:
    """A decoder whose work is counted. Nothing stops a completion but its limit."""

    def __init__(self, path: Path) -> None:
        self.model = Counting(read_policy(str(path), torch.float32))
        self.decoder = Decoder(self.model, frozenset(), PrefixCache(1 << 30))

    def run(self, *requests: SampleRequest) -> tuple[list[list[Completion]], int]:
        """Completions of all requests at once, and how many tokens were computed."""
        before = self.model.num_tokens
        done: dict[int, list[Completion]] = {}

        def job(number: int, request: SampleRequest) -> Job:
            limit = request.sampling.max_new_tokens
            return Job(request, lambda out: done.__setitem__(number, out), lambda: False, limit)

        self.decoder.admit([job(i, request) for i, request in enumerate(requests)])
        while self.decoder.rows:
            self.decoder.step()
        return [done[i] for i in range(len(requests))], self.model.num_tokens - before


@pytest.fixture
def bench(model: Path) -> Bench:
    return Bench(model)


def test_siblings_that_say_the_same_are_computed_once(bench: Bench) -> None:
    (completions,), num_tokens = bench.run(a_request(num=8, temperature=0, limit=5))
    assert len(completions) == 8
    assert num_tokens == len(PROMPT) + 4  # the last token's successor is nobody's business


def test_every_distinct_beginning_is_computed_once(bench: Bench) -> None:
    (completions,), num_tokens = bench.run(a_request(num=30, limit=3, temperature=0.5))
    beginnings = {c.token_ids[:n] for c in completions for n in (1, 2)}
    assert num_tokens == len(PROMPT) + len(beginnings)


def test_what_prompts_begin_with_is_computed_once(bench: Bench) -> None:
    _, num_tokens = bench.run(a_request((*PROMPT, 30, 31), num=1, limit=1), a_request((*PROMPT, 40), num=1, limit=1))
    assert num_tokens == len(PROMPT) + 2 + 1


def test_a_later_turn_goes_on_from_what_was_said(bench: Bench) -> None:
    ((first, *_),), _ = bench.run(a_request(num=4, limit=6))
    reply = (50, 51, 52)
    _, num_tokens = bench.run(a_request((*PROMPT, *first.token_ids, *reply), num=1, limit=1))
    assert num_tokens == 1 + len(reply)  # the last token said was never read by the model


def test_reused_contexts_give_the_same_distribution(bench: Bench, model: Path) -> None:
    turns = a_request(num=3, limit=6, seed=4)
    ((first, *_),), _ = bench.run(turns)
    later = a_request((*PROMPT, *first.token_ids, 50, 51), num=3, seed=5)
    other = a_request((*PROMPT[:8], 60, 61), num=3, seed=6)
    warm, _ = bench.run(later, other)
    cold, _ = Bench(model).run(later, other)
    for ours, theirs in zip(warm, cold, strict=True):
        assert [c.token_ids for c in ours] == [c.token_ids for c in theirs]
        for mine, its in zip(ours, theirs, strict=True):
            assert mine.logprobs == pytest.approx(its.logprobs, abs=1e-5)


def test_equal_prompts_that_ask_separately_share_their_work(bench: Bench) -> None:
    together, num_tokens = bench.run(*(a_request(num=1, seed=i, limit=1) for i in range(5)))
    assert num_tokens == len(PROMPT)
    alone = [bench.run(a_request(num=1, seed=i, limit=1))[0][0] for i in range(5)]
    assert [c[0].token_ids for c in together] == [c[0].token_ids for c in alone]


def test_rows_of_unequal_length_do_not_disturb_each_other(bench: Bench, model: Path) -> None:
    requests = [a_request(PROMPT[: 3 + 4 * i], num=5, limit=3 + 2 * i, seed=i) for i in range(3)]
    together, _ = bench.run(*requests)
    for request, completions in zip(requests, together, strict=True):
        ((alone),), _ = Bench(model).run(request)
        assert [c.token_ids for c in completions] == [c.token_ids for c in alone]


def test_the_prefix_cache_forgets_what_was_used_longest_ago() -> None:
    def context(*ids: int) -> Context:
        return Context(ids, torch.zeros(1, 2, 1, len(ids), 8), torch.zeros(1, 2, 1, 0, 8))

    cache = PrefixCache(2 * context(1, 2, 3).num_bytes)
    for ids in [(1, 2, 3), (4, 5, 6)]:
        cache.put(context(*ids))
    assert cache.longest((1, 2, 9))[1] == 2
    cache.put(context(7, 8, 9))
    assert cache.longest((4, 5, 6))[1] == 0
    assert cache.longest((1, 2, 3))[1] == 3


def test_a_packed_layer_computes_what_a_linear_layer_does() -> None:
    linear = torch.nn.Linear(64, 9000, bias=False)
    rows = torch.randn(5, 64)
    torch.testing.assert_close(PackedLinear(linear)(rows), linear(rows), atol=1e-5, rtol=1e-5)


async def test_live_weights_are_copied(engine: TransformersEngine, model: Path) -> None:
    from transformers import AutoModelForCausalLM

    async def likelihood() -> tuple[float, ...]:
        (completion,) = await engine.sample(a_request(temperature=0, num=1))
        return completion.logprobs

    live = AutoModelForCausalLM.from_pretrained(model)
    before = pytest.approx(await likelihood(), abs=1e-5)
    await engine.load(a_policy("/not/published/yet"), live)
    assert await likelihood() == before
    with torch.no_grad():
        for parameter in live.parameters():
            parameter.mul_(1.5)
    assert await likelihood() == before
    await engine.load(a_policy("/not/published/yet"), live)
    assert await likelihood() != before


async def test_an_engine_can_start_from_live_weights(model: Path) -> None:
    from transformers import AutoModelForCausalLM

    fresh: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 1})
    await fresh.load(a_policy("/not/published/yet"), AutoModelForCausalLM.from_pretrained(model))
    assert len(await fresh.sample(a_request())) == 4
    await fresh.close()


async def test_a_module_of_another_shape_is_refused(engine: TransformersEngine, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    other = AutoModelForCausalLM.from_pretrained(build_tiny_model(tmp_path / "other", layers=1, hidden=128))
    with pytest.raises(EngineError, match="same model"):
        await engine.load(a_policy("/not/published/yet"), other)


async def test_a_failure_reaches_whoever_asked_and_the_engine_goes_on(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the processor caught fire")

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "step", broken)
        with pytest.raises(EngineError, match=r"RuntimeError: the processor caught fire"):
            await engine.sample(a_request())
    assert len(await engine.sample(a_request())) == 4


async def test_a_cancelled_request_makes_room_for_others(engine: TransformersEngine) -> None:
    endless = asyncio.create_task(engine.sample(a_request(num=8, limit=900)))
    await asyncio.sleep(0.05)
    endless.cancel()
    assert len(await asyncio.wait_for(engine.sample(a_request()), 30)) == 4
    with pytest.raises(asyncio.CancelledError):
        await endless
    await asyncio.wait_for(engine.load(a_policy(engine.policy_version), engine._model), 30)


async def test_requests_that_cannot_be_sampled_are_refused(engine: TransformersEngine) -> None:
    for bad in (a_request(()), a_request(PROMPT * 100), a_request(num=0), a_request(limit=0)):
        with pytest.raises(EngineError, match="at least 1, and the model's context is 1024"):
            await engine.sample(bad)


async def test_a_completion_ends_where_the_context_does(engine: TransformersEngine) -> None:
    (completion,) = await engine.sample(a_request((10,) * 1020, num=1, limit=50, temperature=0))
    assert len(completion.token_ids) <= 4


def test_one_engine_serves_several_event_loops(model: Path) -> None:
    engine: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 2})
    asyncio.run(engine.load(a_policy(model)))
    first, second = (asyncio.run(engine.sample(a_request())) for _ in range(2))
    assert [c.token_ids for c in first] == [c.token_ids for c in second]
    asyncio.run(engine.close())


async def test_a_missing_model_says_what_to_do() -> None:
    engine: TransformersEngine = build_plugin("engine", "transformers", {})
    missing: PolicyVersion = a_policy("/nowhere/at/all")
    with pytest.raises(EngineError, match=r"/nowhere/at/all.*no such directory.*training.embedded_model.*ASSAY_MODEL"):
        await engine.load(missing)


def test_a_mistyped_option_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"engine\.transformers\.num_thread"):
        build_plugin("engine", "transformers", {"num_thread": 2})


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Gemma", "Mistral", "GPT2"])
def test_other_families_of_models_are_sampled_and_scored_alike(family: str, tmp_path: Path) -> None:
    plain = small_model(family)
    plain.save_pretrained(tmp_path)
    (completions,), _ = Bench(tmp_path).run(a_request(num=3, limit=5, temperature=0.9))
    for completion in completions:
        wanted = teacher_forced(plain, PROMPT, completion.token_ids, 0.9)
        assert completion.logprobs == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 2e-2)])
async def test_logprobs_are_right_to_the_digits_of_the_precision(model: Path, dtype: str, tolerance: float) -> None:
    engine: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 1, "dtype": dtype})
    await engine.load(a_policy(model))
    exact = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for said in await engine.sample(a_request()):
        assert said.logprobs == pytest.approx(teacher_forced(exact, PROMPT, said.token_ids), abs=tolerance)
    await engine.close()
