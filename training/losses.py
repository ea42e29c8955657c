"""Losses over the T loss tokens of a pack. They return sums: whoever steps divides by the tokens of the whole batch,
so every token weighs the same however the batch was packed.
"""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Clip:
    """The trust region: ratios beyond 1 - low .. 1 + high earn nothing more, and none counts above `cap`."""

    low: float = 0.2
    high: float = 0.28
    cap: float = 5.0


def grpo_loss(
    logprobs: torch.Tensor,
    sampled: torch.Tensor,
    advantages: torch.Tensor,
    clip: Clip,
    *,
    reference: torch.Tensor | None = None,
    kl_coef: float = 0.0,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Clipped policy-gradient loss, summed, and its figures, summed too.

    `logprobs` [T] are the policy's now, `sampled` [T] those stored at sampling, in nats; their ratio corrects for the
    policy having moved, and for any difference between engine and trainer. Per token

        ratio = min(exp(logprobs - sampled), cap)
        loss = -min(ratio * advantage, clamp(ratio, 1 - low, 1 + high) * advantage) + kl_coef * k3

    with k3 = exp(d) - d - 1, d = reference - logprobs (http://joschu.net/blog/kl-approx.html).
    """
    difference = logprobs - sampled
    ratio = difference.clamp(max=math.log(clip.cap)).exp()
    bounded = ratio.clamp(1 - clip.low, 1 + clip.high)
    loss = -torch.minimum(ratio * advantages, bounded * advantages).sum()
    figures = {
        "ratio_mean": ratio.sum().item(),
        "clip_rate": (bounded * advantages < ratio * advantages).sum().item(),
        "cap_rate": (difference > math.log(clip.cap)).sum().item(),
        "mismatch": difference.detach().abs().sum().item(),
        "kl": 0.0,
    }
    if reference is not None:
        gap = reference - logprobs
        divergence = (gap.exp() - gap - 1).sum()
        loss = loss + kl_coef * divergence
        figures["kl"] = divergence.item()
    return loss, figures


def sft_loss(logprobs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted cross-entropy of the demonstrations' tokens, summed (nats)."""
    return -(weights * logprobs).sum()
