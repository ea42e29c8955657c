"""The embedded engine's copy of a policy: read from a Hugging Face model or from the trainer's live module."""

import copy
from typing import Any

import torch
from torch import nn

from assay.errors import EngineError
from rollouts.chat import missing_model
from rollouts.engines import _attention
from rollouts.image_chat import sees_images

# From this many outputs on (the vocabulary), reordered weights are 2-2.5x faster at the batch sizes of decoding;
# smaller layers gain nothing.
PACK_FROM = 8192


class PackedLinear(nn.Module):
    """A linear layer for inference whose weight [out, in] lies in oneDNN's blocked order."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.pack(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Take other values."""
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 32)
        self.offset = bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.offset, "none", [], "")


def read_policy(path: str, dtype: torch.dtype) -> Any:
    """The model at a Hugging Face directory or hub id, ready for the engine. EngineError when there is none."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    _attention.register()
    try:
        if sees_images(path):
            # The layout is the text's; an image is seen whole, as always.
            attention = {"text_config": _attention.NAME, "vision_config": "sdpa"}
            model = AutoModelForImageTextToText.from_pretrained(path, dtype=dtype, attn_implementation=attention)
        else:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=_attention.NAME)
    except (OSError, ValueError) as error:
        raise missing_model(path, error) from error
    return _prepare(model)


def copy_policy(live: Any, dtype: torch.dtype) -> Any:
    """A copy of the trainer's module."""
    from transformers import AutoModelForCausalLM

    _attention.register()
    model = AutoModelForCausalLM.from_config(
        copy.deepcopy(live.config), dtype=dtype, attn_implementation=_attention.NAME
    )
    model = _prepare(model)
    refresh_policy(model, live)
    return model


@torch.no_grad()
def refresh_policy(model: Any, live: Any) -> None:
    """Overwrite the engine's weights with the trainer's, in place; EngineError when the two do not match."""
    weights = live.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, PackedLinear):
            dtype = module.packed.dtype
            bias = weights.get(f"{name}.bias")
            module.pack(weights[f"{name}.weight"].to(dtype), None if bias is None else bias.to(dtype))
    for name, parameter in model.named_parameters():
        if name not in weights or weights[name].shape != parameter.shape:
            raise EngineError(
                f"The trainer's module has no weight {name} of shape {tuple(parameter.shape)}. The engine and the "
                "trainer must hold the same model; load the published directory instead."
            )
        parameter.copy_(weights[name])


def _prepare(model: Any) -> Any:
    if not getattr(model, "_supports_attention_backend", False):
        raise EngineError(
            f"{type(model).__name__} does not take attention backends, so the embedded engine can't run it. Use the "
            "vllm engine for this model."
        )
    head = model.get_output_embeddings()
    if torch.backends.mkldnn.is_available() and isinstance(head, nn.Linear) and head.out_features >= PACK_FROM:
        model.set_output_embeddings(PackedLinear(head))
    return model.eval().requires_grad_(False)
