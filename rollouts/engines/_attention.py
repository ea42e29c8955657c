"""Attention of the embedded engine over its own key/value store, as an attention backend of transformers.

All tokens of a forward pass lie in one row [1, N], so matrix products see one large batch whatever the contexts'
lengths; the `Layout` given to the forward pass knows which token attends to what. Works for every causal language
model of transformers that takes attention backends.

    Prefill   one context: cached keys/values, then N new tokens, causal
    DecodeStep   N rows, one new token each: the group's shared prompt (kept once), then the row's own tail
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention, softmax

from assay.errors import EngineError

NAME = "assay_engine"


class Layout(Protocol):
    """Stores the new tokens' keys and values of one layer, and attends for them."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """query [N, H, D], key and value [N, Hkv, D] of the new tokens -> attention output [N, H, D]."""
        ...


def register() -> None:
    """Make transformers know this backend (idempotent)."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float,
    dropout: float = 0.0,
    layout: Layout | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    if layout is None or softcap is not None or s_aux is not None:
        raise EngineError(
            f"{type(module).__name__} uses attention that the embedded engine does not support (soft caps, sinks, or "
            "arguments that are not passed on). Use the vllm engine for this model."
        )
    rows = layout.attend(
        module.layer_idx, query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1), scaling
    )
    return rows.unsqueeze(0), None


class Prefill:
    """N new tokens after `past` [L, 2, Hkv, P, D] of the same context. `stored` [L, 2, Hkv, P + N, D] is the result."""

    def __init__(self, past: torch.Tensor | None, num_new: int) -> None:
        self.past = past
        self.num_past = 0 if past is None else past.shape[3]
        self._layers: list[torch.Tensor] = []
        total = self.num_past + num_new
        self._mask = torch.ones(num_new, total, dtype=torch.bool).tril_(self.num_past)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        new = torch.stack((key, value)).transpose(1, 2)
        both = new if self.past is None else torch.cat((self.past[layer], new), dim=2)
        self._layers.append(both)
        keys, values = both.repeat_interleave(query.shape[1] // key.shape[1], dim=1).unsqueeze(1)
        output = scaled_dot_product_attention(
            query.transpose(0, 1).unsqueeze(0), keys, values, attn_mask=self._mask, scale=scaling
        )
        return output[0].transpose(0, 1)

    @property
    def stored(self) -> torch.Tensor:
        return torch.stack(self._layers)


class Prompts:
    """The shared prompts of G live groups, padded to one length: keys and values [L, 2, G, Hkv, P, D]."""

    def __init__(self, segments: Sequence[torch.Tensor]) -> None:
        self.lengths = torch.tensor([s.shape[3] for s in segments])
        longest = int(self.lengths.max())
        layers, _, heads, _, width = segments[0].shape
        self.stored = segments[0].new_zeros(layers, 2, len(segments), heads, longest, width)
        for i, segment in enumerate(segments):
            self.stored[:, :, i, :, : segment.shape[3]] = segment
        self.hidden = torch.arange(longest) >= self.lengths[:, None]


class DecodeStep:
    """One new token for each of R rows.

    Row i belongs to group `groups[i]` of `prompts` and has `lengths[i]` tokens in its tail, to which this one is added.
    `tails` [L, 2, rows, Hkv, T, D] is written in place.
    """

    def __init__(self, prompts: Prompts, tails: torch.Tensor, groups: Sequence[int], lengths: Sequence[int]) -> None:
        self.prompts, self.tails = prompts, tails
        self.rows = torch.arange(len(groups))
        self.lengths = torch.tensor(lengths)
        self.width = max(lengths) + 1
        self.groups = torch.tensor(groups)
        self.places, self.padded = _pad_by_group(groups, len(prompts.lengths))
        hidden_tail = torch.arange(self.width) > self.lengths[:, None]
        hidden = torch.cat((prompts.hidden[self.groups], hidden_tail), dim=1)
        self.bias = torch.zeros(hidden.shape, dtype=torch.float32).masked_fill_(hidden, float("-inf"))[:, None, None]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        tail_keys, tail_values = self.tails[layer]
        tail_keys[self.rows, :, self.lengths] = key
        tail_values[self.rows, :, self.lengths] = value
        num_rows, num_heads, width = query.shape
        query = (query * scaling).view(num_rows, key.shape[1], -1, width)

        prompt_keys, prompt_values = self.prompts.stored[layer]
        scores = torch.cat(
            (
                self._by_row(self._by_group(query) @ prompt_keys.transpose(-1, -2), query.shape[2]),
                query @ tail_keys[:num_rows, :, : self.width].transpose(-1, -2),
            ),
            dim=-1,
        )
        weights = softmax(scores.float() + self.bias, dim=-1).to(query.dtype)
        on_prompt, on_tail = weights.split((prompt_keys.shape[2], self.width), dim=-1)
        output = self._by_row(self._by_group(on_prompt) @ prompt_values, query.shape[2])
        output = output + on_tail @ tail_values[:num_rows, :, : self.width]
        return output.reshape(num_rows, num_heads, width)

    def _by_group(self, rows: torch.Tensor) -> torch.Tensor:
        """[R, Hkv, rep, X] -> [G, Hkv, most * rep, X], where `most` is the largest number of rows of a group."""
        return rows[self.padded].transpose(1, 2).flatten(2, 3)

    def _by_row(self, grouped: torch.Tensor, repeats: int) -> torch.Tensor:
        """The inverse of `_by_group`."""
        split = grouped.unflatten(2, (-1, repeats))
        return split[self.groups, :, self.places]


def _pad_by_group(groups: Sequence[int], num_groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(place of each row in its group [R], row at each place [G, most], unused places repeat row 0)."""
    members: list[list[int]] = [[] for _ in range(num_groups)]
    places = []
    for row, group in enumerate(groups):
        places.append(len(members[group]))
        members[group].append(row)
    most = max(map(len, members))
    return torch.tensor(places), torch.tensor([m + [0] * (most - len(m)) for m in members])
