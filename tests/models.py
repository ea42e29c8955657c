"""Small models of several families, and what an ordinary forward pass of a model says of given tokens."""

from collections.abc import Sequence
from typing import Any

import torch

_COMMON = {"vocab_size": 64, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def small_model(family: str) -> Any:
    """A random causal model of two layers; `family` as transformers spells it: Qwen3, Gemma, GPT2, ..."""
    import transformers

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4} if family == "GPT2" else _SIZES
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**_COMMON, **sizes)
    return getattr(transformers, "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(config).eval()


def teacher_forced(model: Any, prompt: Sequence[int], said: Sequence[int], temperature: float = 1.0) -> list[float]:
    """Log-probabilities (nats) of `said` after `prompt`, by one ordinary forward pass."""
    ids = torch.tensor([[*prompt, *said]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, dim=-1).gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
