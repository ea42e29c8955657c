"""Packed log-probabilities and gradients are those of every sequence on its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.records import TrainingSample
from tests.models import small_model
from tests.training.making import a_sample
from training import forward
from training.packing import make_packs

TOKEN = st.integers(6, 9)  # few tokens, so that sequences share beginnings often
TOKENS = st.lists(TOKEN, min_size=1, max_size=5)
TEMPERATURE = st.sampled_from([0.7, 1.0])


@st.composite
def batches(draw: st.DrawFn) -> list[TrainingSample]:
    """A few groups of a few samples of one to three turns."""
    common = draw(st.lists(TOKEN, max_size=4))
    samples = []
    for g in range(draw(st.integers(1, 4))):
        prompt = common + draw(TOKENS)
        for i in range(draw(st.integers(1, 4))):
            parts = [(draw(TOKENS), True)]
            for _ in range(draw(st.integers(0, 2))):
                parts += [(draw(TOKENS), False), (draw(TOKENS), True)]
            samples.append(
                a_sample(
                    f"{g}.{i}",
                    f"g{g}",
                    prompt,
                    *parts,
                    advantage=draw(st.floats(-2, 2)),
                    temperature=draw(TEMPERATURE),
                )
            )
    return samples


@pytest.fixture(scope="module")
def model(tiny: Path) -> Any:
    from transformers import AutoModelForCausalLM

    forward.register()
    return AutoModelForCausalLM.from_pretrained(tiny, attn_implementation=forward.NAME)


@pytest.fixture(scope="module")
def plain(tiny: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny)


def alone(plain: Any, sample: TrainingSample) -> torch.Tensor:
    """Log-probabilities of the sample's loss tokens, by an ordinary forward pass of this sequence only."""
    ids = torch.tensor([sample.token_ids])
    logprobs = torch.log_softmax(plain(input_ids=ids).logits[0, :-1] / sample.temperature, dim=-1)
    chosen = logprobs.gather(1, ids[0, 1:, None])[:, 0]
    return chosen[torch.tensor(sample.loss_mask[1:], dtype=torch.bool)]


def weighted(values: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> Any:
    return sum((v * w).sum() for v, w in zip(values, weights, strict=True))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples=batches(), max_tokens=st.sampled_from([8, 40, 1000]))
def test_packed_equals_unpacked(model: Any, plain: Any, samples: list[TrainingSample], max_tokens: int) -> None:
    packs = make_packs(samples, max_tokens)
    packed = [forward.token_logprobs(model, pack) for pack in packs]
    ordered = sorted(samples, key=lambda s: (s.group_id, s.trajectory_id))
    ordered.sort(key=lambda s: (samples_prompt(samples, s.group_id), s.group_id))
    single = [alone(plain, sample) for sample in ordered]
    torch.testing.assert_close(torch.cat(packed), torch.cat(single), atol=2e-5, rtol=1e-4)

    model.zero_grad()
    plain.zero_grad()
    weighted(packed, [pack.advantages for pack in packs]).backward()
    weighted(single, [torch.tensor(s.advantage) for s in ordered]).backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=2e-4, rtol=1e-3)


def samples_prompt(samples: list[TrainingSample], group: str) -> tuple[int, ...]:
    first = min((s for s in samples if s.group_id == group), key=lambda s: s.trajectory_id)
    return first.token_ids[: first.prompt_len]


def test_what_is_shared_is_computed_once() -> None:
    samples = [
        a_sample("a0", "a", [7, 8, 9], ([10, 11, 12], True)),
        a_sample("a1", "a", [7, 8, 9], ([10, 11, 13], True)),
        a_sample("b0", "b", [7, 8, 6], ([10], True)),
    ]
    (pack,) = make_packs(samples, 1000)
    # stem 7 8; group b, whose prompt comes first: 6 10; group a: 9 10 11 12 13
    assert pack.num_tokens == 2 + 5 + 2
    assert [(b.start, b.stop, b.stem) for b in pack.blocks] == [(0, 2, 0), (2, 4, 2), (4, 9, 2)]
    assert pack.positions.tolist() == [0, 1, 2, 3, 2, 3, 4, 5, 5]
    # 6 predicts 10; 9 predicts 10 for a0 and a1 alike, 10 predicts 11 for both, 11 predicts 12 and 13
    assert len(pack.predictors) == 4
    assert pack.targets.tolist() == [10, 10, 11, 12, 10, 11, 13]


def test_packs_do_not_depend_on_the_order_of_samples() -> None:
    samples = [a_sample(f"{g}{i}", g, [7, ord(g) % 5 + 6], ([8 + i], True)) for g in "abcd" for i in range(3)]
    forwards, backwards = make_packs(samples, 10), make_packs(samples[::-1], 10)
    assert [p.token_ids.tolist() for p in forwards] == [p.token_ids.tolist() for p in backwards]


def test_packs_keep_to_their_size_and_never_divide_a_group() -> None:
    samples = [a_sample(f"{g}{i}", f"g{g}", [10 + g] * 5, ([20 + i] * 5, True)) for g in range(9) for i in range(4)]
    packs = make_packs(samples, 60)
    assert all(pack.num_tokens <= 60 for pack in packs)
    assert sum(pack.num_loss_tokens for pack in packs) == 9 * 4 * 5
    assert len(make_packs(samples, 1)) == 9


@pytest.mark.parametrize("family", ["Qwen3", "Gemma", "GPT2"])
def test_other_families_of_models_are_packed_alike(family: str) -> None:
    forward.register()
    model = small_model(family)
    samples = [a_sample(f"{g}{i}", g, [7, ord(g) % 50], ([8 + i, 9, 10], True)) for g in "ab" for i in range(3)]
    (pack,) = make_packs(samples, 1000)
    with torch.no_grad():
        single = torch.cat([alone(model, sample) for sample in samples])
        model.set_attn_implementation(forward.NAME)
        torch.testing.assert_close(forward.token_logprobs(model, pack), single, atol=2e-5, rtol=1e-4)
