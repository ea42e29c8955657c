"""Proof that a vLLM server computes with the weights it was told to reload.

Its own word is not enough: layers with reordered or fused copies have kept old values after a reload that reported
success, and a policy trained on such samples learns from somebody else's. So the server is once given weights that
nobody else has, the policy's with noise, and must sample with the log-probabilities that transformers computes.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.errors import EngineError
from assay.records import record
from rollouts.engines._vllm_checks import Served
from rollouts.engines._vllm_http import Client
from rollouts.engines._vllm_reload import reload_weights
from rollouts.engines._vllm_weights import exported
from rollouts.engines._vllm_wire import completion_body, read_completions
from rollouts.engines.base import Completion

log = logging.getLogger("assay")

TEMPERATURE = 0.8
NUM_SAMPLES = 4
NUM_TOKENS = 12
NOISE = 0.5
# Of the distance between policy and noisy policy: rounding gives a few hundredths, one stale layer about one.
LARGEST_SHARE = 0.25
LARGEST_BYTES = 2 << 30


@record
class Reload:
    """How to give one server weights: the method of its workers, the folder it sees, the precision it computes in."""

    client: Client
    served: Served
    method: str
    folder: str
    dtype: str


async def prove_reload(reload: Reload, home: str, tokenizer: Any, prompt_ids: tuple[int, ...]) -> None:
    """Raises EngineError unless the server samples from noisy weights that it is given; it holds them afterwards.

    `home` is the policy's directory or hub id. Policies above 2 GiB are not proven: reading them here would take too
    much; a line in the log says so.
    """
    directory = await asyncio.to_thread(_directory, home)
    num_bytes = sum(file.stat().st_size for file in directory.glob("model*.safetensors"))
    if not 0 < num_bytes <= LARGEST_BYTES:
        log.warning("%s is too large to prove weight reloads with; watch `mismatch` of the training steps.", home)
        return
    model = await asyncio.to_thread(_read, directory)
    noisy = await asyncio.to_thread(_with_noise, model)
    with exported(noisy, tokenizer, reload.folder, reload.dtype) as weights:
        await reload_weights(reload.client, weights.path, "noise", method=reload.method)
    completions = await _sample(reload, prompt_ids)
    distance, mismatch = await asyncio.to_thread(_differences, (model, noisy), prompt_ids, completions)
    if not mismatch <= LARGEST_SHARE * distance:
        raise EngineError(
            f"The vLLM server at {reload.client.url} does not compute with the weights it reloads: its "
            f"log-probabilities are {mismatch:.3f} nats per token from theirs, of {distance:.3f} to the old ones. vLLM "
            "0.32 on a CPU does this to tied output layers; let Assay start the server, or use one with a GPU."
        )
    log.info("The vLLM server reloads weights rightly (%.4f of %.2f nats per token).", mismatch, distance)


def _directory(home: str) -> Path:
    from transformers.utils import cached_file

    return Path(cached_file(home, "config.json")).parent


def _read(directory: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval().requires_grad_(False)


def _with_noise(model: Any) -> Any:
    import copy

    import torch

    noisy = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    for parameter in noisy.parameters():
        parameter.mul_(1 + NOISE * torch.randn(parameter.shape, generator=generator))
    return noisy


async def _sample(reload: Reload, prompt_ids: tuple[int, ...]) -> list[Completion]:
    body = completion_body(
        reload.served.name,
        prompt_ids,
        num_samples=NUM_SAMPLES,
        temperature=TEMPERATURE,
        max_new_tokens=NUM_TOKENS,
        seed=0,
        stop_token_ids=(),
    )
    return read_completions(await reload.client.post("/v1/completions", body), NUM_SAMPLES)


def _differences(models: Sequence[Any], prompt_ids: tuple[int, ...], completions: list[Completion]) -> list[float]:
    """Per model, the mean absolute difference (nats) between its log-probabilities and those of the completions."""
    import torch

    means = []
    token_ids = torch.tensor([[*prompt_ids, *completion.token_ids] for completion in completions])
    sampled = torch.tensor([completion.logprobs for completion in completions])
    for model in models:
        logits = model(token_ids).logits[:, len(prompt_ids) - 1 : -1] / TEMPERATURE
        own = logits.log_softmax(-1).gather(2, token_ids[:, len(prompt_ids) :, None])[..., 0]
        means.append((own - sampled).abs().mean().item())
    return means
