"""Requests become trajectories, whatever happens on the way."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from assay.errors import ConfigurationError, EngineError, SandboxError, StoreError
from assay.progress import Event, listening
from assay.records import Cause, Failure, RolloutRequest, Trajectory
from rollouts.collect import collect
from rollouts.engines.base import Completion, SampleRequest
from rollouts.plan import missing, plan_groups
from tests.builders import GREEDY, POLICY, SAMPLED, ToyBackend, ToyDomain, ToyEngine, ToySandbox, a_request, a_task


async def collected(
    requests: list[RolloutRequest], engine: ToyEngine, sandboxes: ToyBackend | None = None, **options: Any
) -> list[Trajectory]:
    options = {"max_concurrency": 8, "deadline_s": 5.0} | options
    return await collect(requests, {"toy": ToyDomain()}, engine, sandboxes or ToyBackend(), **options)


def a_group(size: int = 4, name: str = "a", max_turns: int = 3) -> list[RolloutRequest]:
    return plan_groups([a_task(name, max_turns=max_turns)], POLICY, SAMPLED, size, "train", "r")


async def test_a_group_asks_for_all_its_first_turns_at_once_and_each_member_gets_its_own() -> None:
    engine = ToyEngine(lambda prompt, i: "abcd"[i])
    trajectories = await collected(a_group(4), engine)
    assert [request.num_samples for request in engine.asked] == [4]
    assert [(t.index, t.submission, t.end) for t in trajectories] == [
        (0, "a", "done"),
        (1, "b", "done"),
        (2, "c", "done"),
        (3, "d", "done"),
    ]


async def test_only_the_members_still_to_do_are_sampled_and_under_another_seed_than_before() -> None:
    engine, requests = ToyEngine(), a_group(4)
    await collected(requests[:2], engine)
    done = {request.id for request in requests[:2]}
    await collected(missing(requests, done), engine)
    first, second = engine.asked
    assert (first.num_samples, second.num_samples) == (2, 2)
    assert first.seed != second.seed


async def test_a_greedy_rollout_is_one_sample() -> None:
    engine = ToyEngine()
    requests = plan_groups([a_task("a"), a_task("b")], POLICY, GREEDY, 1, "evaluation", "r")
    await collected(requests, engine)
    assert [(r.num_samples, r.sampling.greedy) for r in engine.asked] == [(1, True), (1, True)]


async def test_the_next_context_is_the_last_one_plus_exactly_what_was_sampled_plus_the_reply() -> None:
    engine = ToyEngine(lambda prompt, i: "a" if "go on" in prompt else "more")
    (trajectory,) = await collected([a_request()], engine)
    first, second = trajectory.turns
    between = tuple(map(ord, "\nuser: go on\n"))
    assert second.prompt_ids == (*first.prompt_ids, *first.completion_ids, *between)
    assert first.completion_ids == (*map(ord, "more"), 0)
    assert first.logprobs == (-0.5,) * 5
    assert (first.observation, second.observation) == ("go on", "")
    assert (trajectory.end, trajectory.submission) == ("done", "a")
    assert trajectory.metrics == {"num_turns": 2.0, "num_invalid_actions": 1.0}


async def test_an_episode_that_never_ends_stops_after_its_turns() -> None:
    (trajectory,) = await collected([a_request()], ToyEngine(lambda prompt, i: "more"))
    assert (trajectory.end, len(trajectory.turns), trajectory.failure) == ("max_turns", 3, None)


async def test_truncation_is_graded_with_what_was_there() -> None:
    (trajectory,) = await collected([a_request()], ToyEngine(lambda prompt, i: "x" * 99))
    assert (trajectory.end, trajectory.failure, trajectory.submission) == ("truncated", None, "x" * 16)


async def test_every_turn_records_its_state_hash_where_asked() -> None:
    engine = ToyEngine(lambda prompt, i: "a" if "go on" in prompt else "more")
    (without,) = await collected([a_request()], engine)
    (hashed,) = await collected([a_request()], engine, state_hashes=True)
    assert [turn.state_hash for turn in without.turns] == ["", ""]
    assert [turn.state_hash for turn in hashed.turns] == ["unchanged", "unchanged"]


async def test_a_state_hash_that_cannot_be_taken_is_the_sandboxs_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: ToySandbox) -> str:
        raise SandboxError("the work dir is gone")

    monkeypatch.setattr(ToySandbox, "state_hash", broken)
    sandboxes = ToyBackend()
    (trajectory,) = await collected([a_request()], ToyEngine(), sandboxes, state_hashes=True)
    assert trajectory.failure == Failure(cause=Cause.SANDBOX, detail="the work dir is gone")
    assert [turn.completion for turn in trajectory.turns] == ["a"]
    assert not sandboxes.alive


async def test_a_full_context_ends_the_episode_as_truncated() -> None:
    first = len("user: say a\n")
    (trajectory,) = await collected([a_request()], ToyEngine(lambda prompt, i: "more"), max_context_tokens=first + 20)
    assert (trajectory.end, len(trajectory.turns), trajectory.turns[-1].observation) == ("truncated", 1, "")


async def test_no_completion_is_longer_than_its_task_allows() -> None:
    engine = ToyEngine()
    await collected([replace(a_request(), sampling=replace(SAMPLED, max_new_tokens=1000))], engine)
    assert engine.asked[0].sampling.max_new_tokens == 16


async def test_the_policy_versions_of_a_trajectory_are_a_span() -> None:
    engine = ToyEngine()

    def script(prompt: str, i: int) -> str:
        engine.version = "p_next"
        return "a" if "go on" in prompt else "more"

    engine.script = script
    (trajectory,) = await collected([a_request()], engine)
    assert [turn.policy_version for turn in trajectory.turns] == [POLICY, "p_next"]
    assert (trajectory.first_policy, trajectory.last_policy) == (POLICY, "p_next")


async def test_a_sandbox_that_does_not_launch_fails_its_own_rollout_only() -> None:
    sandboxes = ToyBackend(fails=lambda n: n == 1)
    trajectories = await collected(a_group(3), ToyEngine(), sandboxes)
    assert [t.end for t in trajectories] == ["done", "failed", "done"]
    failure = trajectories[1].failure
    assert failure is not None
    assert failure.cause is Cause.SANDBOX
    assert failure.detail == "launch 1 failed"
    assert trajectories[1].turns[0].completion == "a", "what was sampled stays"


async def test_a_launch_is_tried_again_only_where_asked() -> None:
    (trajectory,) = await collected([a_request()], ToyEngine(), ToyBackend(lambda n: n < 2), launch_retries=2)
    assert trajectory.end == "done"


async def test_an_unknown_exception_is_the_environments_and_brings_its_traceback() -> None:
    sandboxes = ToyBackend()
    (trajectory,) = await collected([a_request()], ToyEngine(lambda p, i: "crash"), sandboxes)
    assert trajectory.failure is not None
    assert trajectory.failure.cause is Cause.ENVIRONMENT
    assert "RuntimeError: the environment has a bug" in trajectory.failure.detail
    assert not sandboxes.alive


@pytest.mark.parametrize("error", [EngineError("server gone"), KeyError("bug")])
async def test_whatever_an_engine_raises_is_the_engines_failure_for_the_whole_group(error: Exception) -> None:
    class Broken(ToyEngine):
        async def sample(self, request: SampleRequest) -> list[Completion]:
            raise error

    sandboxes = ToyBackend()
    trajectories = await collected(a_group(3), Broken(), sandboxes)
    assert {t.failure.cause for t in trajectories if t.failure} == {Cause.ENGINE}
    assert (len(trajectories), sandboxes.num_created) == (3, 0)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda c: [], "0 completions of 1"),
        (lambda c: [replace(c[0], logprobs=())], "0 log-probabilities for 2 tokens"),
        (lambda c: [replace(c[0], token_ids=(), logprobs=())], "completion of 0 tokens"),
    ],
)
async def test_an_engine_that_breaks_its_contract_fails_the_rollout(spoil: Any, told: str) -> None:
    class Broken(ToyEngine):
        async def sample(self, request: SampleRequest) -> list[Completion]:
            return list(spoil(await super().sample(request)))

    (trajectory,) = await collected([a_request()], Broken())
    assert trajectory.failure is not None
    assert trajectory.failure.cause is Cause.ENGINE
    assert told in trajectory.failure.detail


async def test_passing_the_deadline_is_invalid_and_leaves_no_sandbox() -> None:
    sandboxes = ToyBackend()
    (trajectory,) = await collected([a_request()], ToyEngine(lambda p, i: "wait"), sandboxes, deadline_s=0.05)
    assert trajectory.failure is not None
    assert trajectory.failure.cause is Cause.DEADLINE
    assert "0.05 s" in trajectory.failure.detail
    assert not sandboxes.alive


async def test_a_first_turn_that_takes_too_long_is_the_deadlines() -> None:
    class Slow(ToyEngine):
        async def sample(self, request: SampleRequest) -> list[Completion]:
            await asyncio.sleep(60)
            return []

    trajectories = await collected(a_group(2), Slow(), deadline_s=0.05)
    assert [t.failure.cause for t in trajectories if t.failure] == [Cause.DEADLINE] * 2


async def test_the_agents_own_time_out_is_graded() -> None:
    script = ToyEngine(lambda prompt, i: "wait" if "go on" in prompt else "more")
    (trajectory,) = await collected([a_request()], script, agent_timeout_s=0.05)
    assert (trajectory.end, trajectory.failure, trajectory.submission) == ("agent_timeout", None, "more")
    assert len(trajectory.turns) == 2


async def test_no_more_episodes_run_at_once_than_allowed_even_when_a_group_is_larger() -> None:
    sandboxes, engine = ToyBackend(), ToyEngine(lambda p, i: "more")
    requests = plan_groups([a_task(n) for n in "abcd"], POLICY, SAMPLED, 5, "train", "r")
    trajectories = await collected(requests, engine, sandboxes, max_concurrency=3)
    assert len(trajectories) == 20
    assert sandboxes.most_alive <= 3
    assert sandboxes.most_alive > 1
    assert [t.id for t in trajectories] == [r.id for r in requests]


async def test_every_trajectory_is_told_once_with_counts() -> None:
    events: list[Event] = []
    told: list[str] = []
    with listening(events.append):
        trajectories = await collected(
            a_group(3), ToyEngine(), ToyBackend(lambda n: n == 0), on_done=lambda t: told.append(t.id)
        )
    assert sorted(told) == sorted(t.id for t in trajectories)
    last = events[-1]
    assert (last.stage, last.data["done"], last.data["total"], last.data["failed"]) == ("rollout", 3, 3, 1)


async def test_an_error_of_the_listener_stops_everything_and_is_raised_as_it_is() -> None:
    sandboxes = ToyBackend()

    def refuse(trajectory: Trajectory) -> None:
        raise StoreError("disk is read-only")

    with pytest.raises(StoreError, match="read-only"):
        await collected(a_group(4), ToyEngine(), sandboxes, on_done=refuse)
    assert not sandboxes.alive


async def test_cancellation_goes_through_and_closes_every_episode() -> None:
    sandboxes = ToyBackend()
    job = asyncio.ensure_future(collected(a_group(4), ToyEngine(lambda p, i: "wait"), sandboxes))
    await asyncio.sleep(0.1)
    assert sandboxes.alive
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert not sandboxes.alive


async def test_an_engine_with_other_weights_is_refused_before_any_work() -> None:
    engine = ToyEngine()
    engine.version = "p_other"
    with pytest.raises(EngineError, match=r"serves policy 'p_other'.*asks for 'p_toy'"):
        await collected([a_request()], engine)
    assert not engine.asked


async def test_an_unknown_domain_is_refused_with_the_known_ones() -> None:
    request = replace(a_request(), task=replace(a_task(), domain="tot"))
    with pytest.raises(ConfigurationError, match=r"Unknown domain 'tot'. Known: toy"):
        await collected([request], ToyEngine())
