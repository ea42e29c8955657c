"""From verified trajectories to a batch, with an account of every trajectory."""

from dataclasses import replace

import pytest

from assay.errors import TrainingError
from assay.records import Turn, VerifiedTrajectory
from tests.builders import GREEDY, a_request, a_task, a_trajectory, a_turn, a_verdict, a_verified, an_invalid
from training.samples import make_batch, training_sample


def group(name: str, rewards: list[float | None], text: str = "abc") -> list[VerifiedTrajectory]:
    """One group on task `name`; None is an invalid verdict."""
    return [
        a_verified(
            a_trajectory(a_request(a_task(name), index=i), text), a_verdict(r) if r is not None else an_invalid()
        )
        for i, r in enumerate(rewards)
    ]


def turns(*pairs: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Turn, ...]:
    return tuple(
        replace(a_turn(index=i), prompt_ids=prompt, completion_ids=said, logprobs=(-0.25,) * len(said))
        for i, (prompt, said) in enumerate(pairs)
    )


def test_every_trajectory_is_accounted_for() -> None:
    judged = group("mixed", [1.0, 0.0, None]) + group("same", [1.0, 1.0]) + group("alone", [1.0, None])
    batch, rows = make_batch(judged, kind="grpo", policy_version="p1")
    assert batch.dropped == {"invalid": 2, "no_signal": 2, "too_few_valid": 1}
    assert [s.advantage for s in batch.samples] == [1.0, -1.0]
    assert [(r["used"], r["drop_reason"], r["in_baseline"], r["num_loss_tokens"]) for r in rows] == [
        (True, None, True, 3),
        (True, None, True, 3),
        (False, "invalid", False, 0),
        (False, "no_signal", True, 0),
        (False, "no_signal", True, 0),
        (False, "too_few_valid", False, 0),
        (False, "invalid", False, 0),
    ]
    assert {r["batch_id"] for r in rows} == {batch.id}


@pytest.mark.parametrize(("num_groups", "size"), [(4, 4), (3, 5), (5, 2)])
def test_advantages_are_divided_by_the_spread_of_their_own_group(num_groups: int, size: int) -> None:
    judged = [
        item
        for g in range(num_groups)
        for item in group(f"g{g}", [1.0 if i <= g % (size - 1) else 0.0 for i in range(size)])
    ]
    saturated = group("saturated", [1.0] * size)
    batch, _ = make_batch(judged + saturated, kind="grpo", policy_version="p1")
    assert batch.dropped == {"no_signal": size}
    for g in range(num_groups):
        share = (g % (size - 1) + 1) / size  # of members with reward 1
        spread = (share * (1 - share)) ** 0.5
        own = [s.advantage for s in batch.samples[g * size : (g + 1) * size]]
        wanted = [((1.0 if i / size < share else 0.0) - share) / spread for i in range(size)]
        assert own == pytest.approx(wanted)


def test_the_order_of_trajectories_does_not_matter() -> None:
    judged = group("a", [1.0, 0.0, 0.5]) + group("b", [0.0, 1.0])
    forward, _ = make_batch(judged, kind="grpo", policy_version="p1")
    backward, _ = make_batch(judged[::-1], kind="grpo", policy_version="p1")
    assert forward.id == backward.id


def test_only_sampled_tokens_are_in_the_loss() -> None:
    spoken = turns(((1, 2), (3, 4)), ((1, 2, 3, 4, 9, 9), (5,)))
    sample = training_sample(replace(a_trajectory(), turns=spoken), 0.5)
    assert sample.token_ids == (1, 2, 3, 4, 9, 9, 5)
    assert sample.loss_mask == (0, 0, 1, 1, 0, 0, 1)
    assert sample.logprobs == (0, 0, -0.25, -0.25, 0, 0, -0.25)
    assert (sample.prompt_len, sample.temperature) == (2, 1.0)


def test_a_context_that_rewrites_what_was_said_is_refused() -> None:
    broken = replace(a_trajectory(), turns=turns(((1, 2), (3, 4)), ((1, 2, 3, 7, 9), (5,))))
    with pytest.raises(TrainingError, match="context of turn 1 does not extend"):
        training_sample(broken, 1.0)


def test_greedy_rollouts_are_refused() -> None:
    greedy = [a_verified(replace(v.trajectory, sampling=GREEDY), v.verdict) for v in group("a", [1.0, 0.0])]
    with pytest.raises(TrainingError, match="greedily"):
        make_batch(greedy, kind="grpo", policy_version="p1")


def test_a_warm_start_imitates_what_passed() -> None:
    batch, rows = make_batch(group("a", [1.0, 0.4, None]), kind="sft", policy_version="p0")
    assert (batch.kind, [s.advantage for s in batch.samples]) == ("sft", [1.0])
    assert [r["drop_reason"] for r in rows] == [None, "no_signal", "invalid"]
