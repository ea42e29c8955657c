"""The vLLM engine against a server that errs on demand: what is asked, what is refused, and in which words."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigurationError, EngineError, EngineUnreachable, is_transient
from assay.records import Message, PolicyVersion, SamplingParams
from assay.registry import build_plugin
from rollouts.chat import ChatTokenizer
from rollouts.engines import _vllm_http
from rollouts.engines._vllm_checks import PROBE_TEXT
from rollouts.engines._vllm_link import Link
from rollouts.engines.base import SampleRequest
from rollouts.engines.vllm import VllmEngine
from tests.rollouts.engines.fake_vllm import FakeVllm, serving
from training.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tiny models that differ in their weights."""
    folder = tmp_path_factory.mktemp("models")
    first = build_tiny_model(folder / "first", 0, layers=1, hidden=64)
    return first, build_tiny_model(folder / "second", 1, layers=1, hidden=64)


@pytest.fixture
def fake(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeVllm]:
    monkeypatch.setattr(_vllm_http, "BACKOFF_S", 0.001)
    probe = ChatTokenizer(str(models[0])).tokenizer.encode(PROBE_TEXT, add_special_tokens=False)
    with serving(FakeVllm(str(models[0]), probe)) as running:
        yield running


def a_policy(uri: Path | str, name: str = "p_1") -> PolicyVersion:
    return PolicyVersion(
        id=name,
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


def a_request(num_samples: int = 2, temperature: float = 0.8) -> SampleRequest:
    sampling = SamplingParams(temperature=temperature, max_new_tokens=2)
    return SampleRequest(prompt_ids=(10, 11), num_samples=num_samples, sampling=sampling, seed=2**63 - 1)


def an_engine(fake: FakeVllm, **options: Any) -> VllmEngine:
    """The fake computes nothing, so it can prove nothing."""
    engine: VllmEngine = build_plugin("engine", "vllm", {"url": fake.url, "prove_reload": False, **options})
    return engine


async def loaded(fake: FakeVllm, **options: Any) -> VllmEngine:
    engine = an_engine(fake, **options)
    await engine.load(a_policy(fake.root))
    fake.bodies.clear()
    return engine


async def test_a_request_sends_token_ids_and_narrows_the_distribution_by_temperature_alone(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    completions = await engine.sample(a_request())
    assert [c.token_ids for c in completions] == [(3, 4), (3, 4)]
    (body,) = fake.bodies
    assert body["prompt"] == [10, 11]
    assert (body["n"], body["temperature"], body["max_tokens"]) == (2, 0.8, 2)
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert body["stop_token_ids"] == sorted(ChatTokenizer(fake.root).stop_token_ids)
    assert 0 <= body["seed"] < 2**63 - 2
    await engine.close()


async def test_a_greedy_completion_is_drawn_once_and_repeated(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    completions = await engine.sample(a_request(num_samples=3, temperature=0.0))
    assert len(completions) == 3
    assert [body["n"] for body in fake.bodies] == [1]
    await engine.close()


async def test_samples_come_in_order_whatever_order_the_server_sends(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    assert len(await engine.sample(a_request(num_samples=5))) == 5
    await engine.close()


async def test_before_load_everything_says_so(fake: FakeVllm) -> None:
    engine = an_engine(fake)
    with pytest.raises(EngineError, match="call load first"):
        _ = engine.policy_version
    with pytest.raises(EngineError, match="call load first"):
        await engine.sample(a_request())
    with pytest.raises(EngineError, match="call load first"):
        engine.encode_chat([Message(role="user", content="x")])


async def test_a_server_that_is_down_is_unreachable_and_named(fake: FakeVllm) -> None:
    engine = an_engine(fake, url="http://127.0.0.1:9")
    with pytest.raises(EngineUnreachable, match=r"http://127\.0\.0\.1:9 failed GET /v1/models 4 times") as caught:
        await engine.load(a_policy(fake.root))
    assert is_transient(caught.value)


async def test_a_server_that_reports_raw_logprobs_is_refused(fake: FakeVllm) -> None:
    fake.raw_logprobs = True
    with pytest.raises(EngineError, match="--logprobs-mode processed_logprobs"):
        await an_engine(fake).load(a_policy(fake.root))


async def test_a_model_that_is_not_served_is_refused_with_those_that_are(fake: FakeVllm) -> None:
    with pytest.raises(EngineError, match="no model 'other'; it serves m"):
        await an_engine(fake, model_name="other").load(a_policy(fake.root))


async def test_a_server_with_another_tokenizer_is_refused(fake: FakeVllm) -> None:
    fake.probe_ids = [20, 21, 22]
    with pytest.raises(EngineError, match="another tokenizer"):
        await an_engine(fake).load(a_policy(fake.root))


async def test_a_server_that_is_not_vllm_is_refused(fake: FakeVllm) -> None:
    fake.replies["/v1/models"] = "<html>hello</html>"
    with pytest.raises(EngineError, match="not JSON"):
        await an_engine(fake).load(a_policy(fake.root))


async def test_a_busy_server_is_asked_again(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    fake.statuses = [503, 429]
    assert len(await engine.sample(a_request())) == 2
    await engine.close()


async def test_an_error_of_the_server_is_told_in_its_words_and_not_repeated(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    fake.statuses = [500]
    with pytest.raises(EngineError, match="status 500: the core is on fire") as caught:
        await engine.sample(a_request())
    assert not is_transient(caught.value)
    assert fake.statuses == []
    await engine.close()


async def test_a_server_that_answers_too_late_is_unreachable(fake: FakeVllm) -> None:
    engine = await loaded(fake, request_timeout_s=0.3)
    fake.delay_s = 0.8
    with pytest.raises(EngineUnreachable, match=r"request_timeout_s=0\.3"):
        await engine.sample(a_request())
    await engine.close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"token_ids": None}, "token_ids"),
        ({"finish_reason": "abort"}, "finish_reason"),
        ({"logprobs": None}, "logprobs"),
        ({"token_ids": [3, 4, 5]}, "3 token ids but 2 log-probabilities"),
    ],
)
async def test_a_reply_that_lacks_what_training_needs_is_an_engine_error(
    fake: FakeVllm, change: dict[str, Any], complaint: str
) -> None:
    engine = await loaded(fake)
    fake.change = change
    with pytest.raises(EngineError, match=complaint):
        await engine.sample(a_request())
    await engine.close()


async def test_too_few_completions_are_an_engine_error(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    fake.replies["/v1/completions"] = '{"choices": []}'
    with pytest.raises(EngineError, match="0 completions of 2"):
        await engine.sample(a_request())
    await engine.close()


async def test_new_weights_are_reloaded_and_marked(fake: FakeVllm, models: tuple[Path, Path]) -> None:
    engine = await loaded(fake)
    await engine.load(a_policy(models[1], "p_2"))
    assert (fake.weights, fake.marker, engine.policy_version) == (str(models[1]), "p_2", "p_2")
    await engine.close()


async def test_a_server_that_keeps_its_old_weights_is_found_out(fake: FakeVllm, models: tuple[Path, Path]) -> None:
    engine = await loaded(fake)
    fake.reload_works = False
    with pytest.raises(EngineError, match="still holds the old weights after reloading p_2"):
        await engine.load(a_policy(models[1], "p_2"))
    with pytest.raises(EngineError, match="No policy version"):
        _ = engine.policy_version


async def test_equal_weights_under_a_new_version_are_no_fault(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    fake.reload_works = False
    await engine.load(a_policy(fake.root, "p_2"))
    assert engine.policy_version == "p_2"
    await engine.close()


async def test_a_cache_that_is_not_emptied_fails_the_load(fake: FakeVllm) -> None:
    fake.cache_empties = False
    with pytest.raises(EngineError, match="prefix cache"):
        await an_engine(fake).load(a_policy(fake.root))


async def test_samples_from_a_server_that_another_run_reloaded_are_refused(fake: FakeVllm) -> None:
    engine = await loaded(fake)
    fake.marker = "p_of_somebody_else"
    with pytest.raises(EngineError, match="another run uses this server"):
        await engine.sample(a_request())
    await engine.close()


async def test_a_server_that_cannot_reload_serves_what_it_was_started_with(
    fake: FakeVllm, models: tuple[Path, Path]
) -> None:
    fake.dev_mode = False
    engine = await loaded(fake)
    assert len(await engine.sample(a_request())) == 2
    with pytest.raises(EngineError, match="VLLM_SERVER_DEV_MODE=1"):
        await engine.load(a_policy(models[1], "p_2"))
    await engine.close()


def test_live_weights_for_another_machine_need_a_common_folder(fake: FakeVllm) -> None:
    client = _vllm_http.Client("http://vllm.example:8000", timeout_s=1, advice=str)
    with pytest.raises(EngineError, match="Set weights_dir"):
        Link(client, None, "").weights(a_policy(fake.root), object(), object())


async def test_a_server_that_does_not_compute_with_what_it_reloads_is_refused(fake: FakeVllm) -> None:
    """The fake reports success, a new checksum and the log-probabilities it always reports."""
    with pytest.raises(EngineError, match="does not compute with the weights it reloads"):
        await an_engine(fake, prove_reload=True).load(a_policy(fake.root))
    assert not list(Path("/dev/shm").glob("assay-weights-*"))


async def test_weights_that_are_not_there_are_an_engine_error(fake: FakeVllm, tmp_path: Path) -> None:
    engine = await loaded(fake)
    with pytest.raises(EngineError, match="are not there"):
        await engine.load(a_policy(tmp_path / "gone", "p_2"))
    await engine.close()


async def test_loading_waits_for_completions_under_way(fake: FakeVllm, models: tuple[Path, Path]) -> None:
    engine = await loaded(fake)
    fake.delay_s = 0.3
    started = time.monotonic()
    sampling = asyncio.create_task(engine.sample(a_request()))
    await asyncio.sleep(0.1)
    await engine.load(a_policy(models[1], "p_2"))
    assert time.monotonic() - started >= 0.3
    assert len(await sampling) == 2
    await engine.close()


def test_an_engine_outlives_the_event_loop_it_was_loaded_in(fake: FakeVllm) -> None:
    engine = asyncio.run(loaded(fake))
    assert len(asyncio.run(engine.sample(a_request()))) == 2
    assert len(asyncio.run(engine.sample(a_request()))) == 2
    asyncio.run(engine.close())
    asyncio.run(engine.close())


def test_a_url_without_a_scheme_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"engine\.vllm\.url: .*must start with http"):
        build_plugin("engine", "vllm", {"url": "localhost:8000"})


def test_the_v1_of_an_openai_style_url_is_dropped() -> None:
    assert VllmEngine.Config(url="http://host:8000/v1/").url == "http://host:8000"


def test_without_a_vllm_environment_the_engine_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_VLLM_PYTHON", str(tmp_path / "python"))
    with pytest.raises(ConfigurationError, match="make vllm"):
        build_plugin("engine", "vllm", {})
