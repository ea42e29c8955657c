"""Losses against numbers computed by hand."""

import math

import pytest
import torch

from training.losses import Clip, grpo_loss, sft_loss

CLIP = Clip(low=0.2, high=0.3, cap=2.0)


def log(*ratios: float) -> torch.Tensor:
    return torch.tensor([math.log(r) for r in ratios], requires_grad=True)


def test_on_the_sampling_policy_the_loss_is_minus_the_advantages() -> None:
    logprobs = log(0.5, 0.25)
    loss, figures = grpo_loss(logprobs, logprobs.detach(), torch.tensor([1.5, -0.5]), CLIP)
    loss.backward()
    assert loss.item() == pytest.approx(-1.0)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-1.5, 0.5])
    assert (figures["ratio_mean"], figures["clip_rate"], figures["mismatch"]) == (2.0, 0.0, 0.0)


def test_beyond_the_trust_region_nothing_more_is_earned() -> None:
    # ratios 1.5 and 0.5: the gain is bounded at 1.3 * 1, the loss at 0.8 * -1; neither has a gradient
    logprobs = log(1.5, 0.5)
    loss, figures = grpo_loss(logprobs, torch.zeros(2), torch.tensor([1.0, -1.0]), CLIP)
    loss.backward()
    assert loss.item() == pytest.approx(-1.3 + 0.8)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0, 0.0]
    assert figures["clip_rate"] == 2


def test_moves_against_the_advantage_are_corrected_in_full_up_to_the_cap() -> None:
    # ratio 1.5 with a negative advantage counts in full; ratio 8 counts as the cap, without a gradient
    logprobs = log(1.5, 8.0)
    loss, figures = grpo_loss(logprobs, torch.zeros(2), torch.tensor([-1.0, -1.0]), CLIP)
    loss.backward()
    assert loss.item() == pytest.approx(1.5 + 2.0)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([1.5, 0.0])
    assert (figures["cap_rate"], figures["clip_rate"]) == (1, 0)


def test_the_divergence_is_the_k3_estimate() -> None:
    # reference twice as likely: d = ln 2, k3 = 2 - ln 2 - 1
    loss, figures = grpo_loss(
        log(0.25), torch.tensor([math.log(0.25)]), torch.tensor([0.0]), CLIP, reference=log(0.5).detach(), kl_coef=0.5
    )
    assert figures["kl"] == pytest.approx(1 - math.log(2))
    assert loss.item() == pytest.approx(0.5 * (1 - math.log(2)))


def test_demonstrations_are_scored_by_cross_entropy() -> None:
    assert sft_loss(log(0.5, 0.25), torch.tensor([1.0, 2.0])).item() == pytest.approx(math.log(2) + 2 * math.log(4))
