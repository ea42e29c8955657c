"""Log-probabilities of a pack's loss tokens under a model, with gradients.

The forest's attention is an attention backend of transformers, so every causal language model that takes backends can
be trained. Only the places that predict a loss token get logits.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from assay.errors import TrainingError
from training.packing import Block, Pack

NAME = "assay_forest"


def register() -> None:
    """Make transformers know the attention backend (idempotent)."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def token_logprobs(model: Any, pack: Pack) -> torch.Tensor:
    """Log-probabilities [T] (nats, float32) of the loss tokens, each at the temperature it was sampled at."""
    output = model(
        input_ids=pack.token_ids.unsqueeze(0),
        position_ids=pack.positions.unsqueeze(0),
        use_cache=False,
        logits_to_keep=pack.predictors,
        blocks=pack.blocks,
    )
    logits = output.logits[0].float() / pack.temperatures.unsqueeze(1)
    return _Selected.apply(logits, pack.rows, pack.targets)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float,
    dropout: float = 0.0,
    blocks: tuple[Block, ...] | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query [1, H, N, D], key and value [1, Hkv, N, D] -> [1, N, H, D]."""
    if blocks is None or softcap is not None or s_aux is not None:
        raise TrainingError(
            f"{type(module).__name__} uses attention that the embedded trainer does not support (soft caps, sinks, or "
            "arguments that are not passed on). Train this model on a cluster backend."
        )
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    outputs = [
        scaled_dot_product_attention(
            query[:, :, b.start : b.stop], _seen(key, b), _seen(value, b), attn_mask=b.visible, scale=scaling
        )
        for b in blocks
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def _seen(rows: torch.Tensor, block: Block) -> torch.Tensor:
    own = rows[:, :, block.start : block.stop]
    return torch.cat((rows[:, :, : block.stem], own), dim=2) if block.stem else own


class _Selected(torch.autograd.Function):
    """Log-softmax of logits [U, V] at (rows, targets) [T], with one temporary of the logits' size."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        total = logits.logsumexp(dim=-1)
        ctx.save_for_backward(logits, total, rows, targets)
        return logits[rows, targets] - total[rows]

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, total, rows, targets = ctx.saved_tensors
        weight = torch.zeros_like(total).index_add_(0, rows, outer[0])
        gradient = (logits - total.unsqueeze(1)).exp_().mul_(-weight.unsqueeze(1))
        gradient.index_put_((rows, targets), outer[0], accumulate=True)
        return gradient, None, None
