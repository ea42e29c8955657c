"""What was recorded comes out again, and what does not is told by turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigurationError, EngineError, SandboxError
from assay.ids import content_hash
from assay.records import Cause, Failure, Message, TaskSpec, Trajectory
from assay.registry import build_plugin, known_plugins
from environments.base import Outcome, Reply
from environments.sandboxes.base import Backend
from rollouts.collect import collect
from rollouts.engines.base import Completion, SampleRequest
from rollouts.replay import Difference, Replay, replay
from tests.builders import SAMPLED, ToyBackend, ToyDomain, ToyEngine, ToyEpisode, ToySandbox, a_request, a_task, played

TASK = a_task(max_turns=3)


class Notes(ToyEpisode):
    """Keeps every completion as its state and reads them all back; ends on `end`."""

    def __init__(self, sandbox: ToySandbox) -> None:
        super().__init__(sandbox)
        self.notes: list[str] = []

    async def reply(self, completion: str) -> Reply:
        await super().reply(completion)
        self.notes.append(completion)
        seen = "\n".join(self.notes)
        return Reply(
            action=completion.upper(), observation=seen, done=completion == "end", valid_action="?" not in seen
        )

    async def outcome(self) -> Outcome:
        return Outcome(submission="|".join(self.notes), metrics={"longest": float(max(map(len, self.notes)))})

    async def state_hash(self) -> str:
        return content_hash(self.notes)


class NotesDomain(ToyDomain):
    async def open(self, task: TaskSpec, sandboxes: Backend) -> Notes:
        return Notes((await super().open(task, sandboxes))._sandbox)


class Scripted(ToyEngine):
    """Says the texts one after the other, then fails."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.texts = list(texts)

    async def sample(self, request: SampleRequest) -> list[Completion]:
        if not self.texts:
            raise EngineError("nothing left to say")
        self.script = lambda prompt, i: self.texts.pop(0)
        return await super().sample(request)


async def recorded(*texts: str, domain: ToyDomain | None = None, **options: Any) -> Trajectory:
    options = {"max_concurrency": 1, "deadline_s": 5.0, "state_hashes": True} | options
    domains = {"toy": domain or NotesDomain()}
    (trajectory,) = await collect([a_request(TASK)], domains, Scripted(texts), ToyBackend(), **options)
    return trajectory


async def replayed(trajectory: Trajectory, *, sandboxes: ToyBackend | None = None, **options: Any) -> Replay:
    sandboxes = sandboxes or ToyBackend()
    result = await replay(trajectory, TASK, NotesDomain(), sandboxes, **options)
    assert not sandboxes.alive
    return result


def altered(trajectory: Trajectory, index: int, **changes: Any) -> Trajectory:
    turns = [replace(turn, **changes) if turn.index == index else turn for turn in trajectory.turns]
    return replace(trajectory, turns=tuple(turns))


def told(result: Replay) -> tuple[int | None, list[str]]:
    return result.turn, [difference.name for difference in result.differences]


async def test_what_was_recorded_comes_out_again() -> None:
    trajectory = await recorded("one", "two", "end")
    result = await replayed(trajectory)
    assert (result.standing, result.turn, result.differences, result.failure) == ("equal", None, (), None)
    assert (result.num_turns, result.num_compared, result.num_hashes, result.ending) == (3, 3, 3, True)


TEXTS = st.sampled_from(["one", "two?", "end", "", "x" * 40, "a\nb\r\n", "\x1b[31m", "ünï"]) | st.text(
    st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=20
)


@given(st.lists(TEXTS, max_size=3))
def test_whatever_is_said_its_replay_is_equal(texts: list[str]) -> None:
    async def check() -> None:
        trajectory = await recorded(*texts, "end")
        result = await replayed(trajectory)
        assert result.standing == "equal", result
        assert (result.num_compared, result.ending) == (len(trajectory.turns), True)

    asyncio.run(check())


async def test_an_altered_observation_names_its_turn_and_shows_the_difference() -> None:
    trajectory = altered(await recorded("one", "two", "end"), 1, observation="one\ntow")
    result = await replayed(trajectory)
    assert (result.standing, result.num_compared, result.ending) == ("diverges", 2, False)
    assert told(result) == (1, ["observation"])
    assert result.differences[0].diff() == ["--- recorded", "+++ replayed", "@@ -1,2 +1,2 @@", " one", "-tow", "+two"]


@pytest.mark.parametrize(
    ("then", "now", "standing"),
    [
        ("Ran 3 in 0.002s\n", "Ran 3 in 1.500s", "diverges"),
        ("Ran 3 in 0.002s", "Ran 3 in 1.500s", "equal"),
        ("ok in 0.02 s ==", "ok in 12 s ==", "equal"),
        ("in 61 seconds", "in 0.5 seconds", "equal"),
        ("3 ok in 0.002s", "2 ok in 0.002s", "diverges"),
        ("0.002s", "0.003s", "diverges"),
        ("in 3 streets", "in 4 streets", "diverges"),
    ],
)
async def test_how_long_a_command_says_it_took_is_not_compared(then: str, now: str, standing: str) -> None:
    trajectory = altered(await recorded(now, "end"), 0, observation=then)
    result = await replayed(trajectory)
    assert result.standing == standing, result


@pytest.mark.parametrize(
    ("index", "changes", "names"),
    [
        (0, {"action": "TWO"}, ["action"]),
        (2, {"action": ""}, ["action"]),
        (1, {"state_hash": "0f"}, ["state_hash"]),
        (0, {"completion": "two"}, ["action", "observation", "state_hash"]),
        (0, {"completion": "end"}, ["action", "observation", "end", "state_hash"]),
        (2, {"completion": "more"}, ["action", "end", "state_hash"]),
    ],
)
async def test_the_first_turn_that_diverges_is_told_with_all_that_differs(
    index: int, changes: dict[str, str], names: list[str]
) -> None:
    trajectory = altered(await recorded("one", "two", "end"), index, **changes)
    assert told(await replayed(trajectory)) == (index, names)


async def test_a_submission_or_a_metric_that_differs_diverges_at_the_last_turn() -> None:
    trajectory = await recorded("one", "end")
    other = await replayed(replace(trajectory, submission="one|END"))
    assert told(other) == (1, ["submission"])
    worse = await replayed(replace(trajectory, metrics={**trajectory.metrics, "longest": 4.0}))
    assert told(worse) == (1, ["metrics"])
    assert [line for line in worse.differences[0].diff() if line[0] in "+-"][2:] == ["-longest: 4.0", "+longest: 3.0"]


async def test_how_an_episode_ended_is_compared_but_its_last_observation_was_not_recorded() -> None:
    full = await recorded("one", "two", "three")
    assert (full.end, full.turns[-1].observation) == ("max_turns", "")
    assert (await replayed(full)).standing == "equal"
    result = await replayed(replace(full, end="done"))
    assert told(result) == (2, ["end"])
    assert (result.differences[0].recorded, result.differences[0].replayed) == ("done", "max_turns")


async def test_an_end_for_want_of_context_is_no_divergence() -> None:
    trajectory = await recorded("one", "two", max_context_tokens=len("user: say a\n") + 25)
    assert (trajectory.end, len(trajectory.turns)) == ("truncated", 1)
    assert (await replayed(trajectory)).standing == "equal"


async def test_without_recorded_hashes_none_is_taken_and_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    trajectory = await recorded("one", "end", state_hashes=False)
    monkeypatch.setattr(Notes, "state_hash", None)
    result = await replayed(trajectory)
    assert (result.standing, result.num_compared, result.num_hashes) == ("equal", 2, 0)


async def test_a_trajectory_that_failed_is_replayed_up_to_its_last_complete_turn() -> None:
    no_more = await recorded("one", "two")
    crashed = await recorded("one", "crash")
    assert [t.failure.cause for t in (no_more, crashed) if t.failure] == [Cause.ENGINE, Cause.ENVIRONMENT]
    for trajectory, num_complete in ((no_more, 2), (crashed, 1)):
        result = await replayed(trajectory)
        assert (result.standing, result.num_turns) == ("equal", 2)
        assert (result.num_compared, result.ending) == (num_complete, False)
    assert told(await replayed(altered(no_more, 1, observation="?"))) == (1, ["observation"])


async def test_a_turn_that_the_agents_time_out_stopped_is_not_compared() -> None:
    trajectory = await recorded("one", "wait", agent_timeout_s=0.05)
    assert trajectory.end == "agent_timeout"
    result = await replayed(trajectory)
    assert (result.standing, result.num_turns, result.num_compared, result.ending) == ("equal", 2, 1, False)


async def test_a_trajectory_without_a_complete_turn_has_nothing_to_compare() -> None:
    with pytest.raises(ConfigurationError, match=r"before its first turn was complete \(environment: .*Choose one"):
        await replayed(await recorded("crash"))
    with pytest.raises(ConfigurationError, match=r"\(engine: nothing left to say\)"):
        await replayed(await recorded())


async def test_trouble_of_the_machine_is_not_a_divergence() -> None:
    trajectory = await recorded("one", "end")
    result = await replayed(trajectory, sandboxes=ToyBackend(fails=lambda n: True))
    assert (result.standing, result.num_compared, result.differences) == ("not_replayed", 0, ())
    assert result.failure == Failure(cause=Cause.SANDBOX, detail="launch 0 failed")


async def test_a_state_hash_that_cannot_be_taken_is_trouble_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Notes) -> str:
        raise SandboxError("the work dir is gone")

    trajectory = await recorded("one", "end")
    monkeypatch.setattr(Notes, "state_hash", broken)
    result = await replayed(trajectory)
    assert result.failure == Failure(cause=Cause.SANDBOX, detail="the work dir is gone")


async def test_a_replay_that_hangs_ends_at_its_deadline() -> None:
    trajectory = altered(await recorded("one", "two", "end"), 1, completion="wait")
    result = await replayed(trajectory, deadline_s=0.05)
    assert (result.standing, result.num_compared) == ("not_replayed", 1)
    assert result.failure == Failure(cause=Cause.DEADLINE, detail="The replay did not end within 0.05 s.")


async def test_another_version_of_the_environment_is_refused_before_anything_runs() -> None:
    sandboxes = ToyBackend()
    older = replace(await recorded("end"), environment_version="0")
    with pytest.raises(ConfigurationError, match=r"version '0' of toy; here is version '1'.*Use the release"):
        await replay(older, TASK, NotesDomain(), sandboxes)
    assert sandboxes.num_created == 0


async def test_another_task_is_refused_with_both_hashes() -> None:
    other = replace(TASK, prompt=(Message(role="user", content="say b"),))
    with pytest.raises(ConfigurationError, match=rf"{TASK.content_hash}, but .* has {other.content_hash}"):
        await replay(await recorded("end"), other, NotesDomain(), ToyBackend())


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a", "a\n", [" a", "+"]),
        ("a\r\nb", "a\nb", ["-a\\r", "+a", " b"]),
        ("\x1b[31mred", "red", ["-\\x1b[31mred", "+red"]),
        ("\\x1b", "\x1b", ["-'\\\\x1b'", "+'\\x1b'"]),
    ],
)
def test_a_difference_that_cannot_be_seen_is_shown(before: str, after: str, lines: list[str]) -> None:
    assert Difference(name="observation", recorded=before, replayed=after).diff()[3:] == lines


@pytest.mark.parametrize("name", known_plugins("domain"))
async def test_every_domain_that_ships_replays_as_it_was_recorded(name: str) -> None:
    domain: Any = build_plugin("domain", name)
    task = replace(domain.make_task("train", 0, 0), max_new_tokens=100_000)
    known = domain.solutions(task)
    sandboxes = build_plugin("sandbox", "bubblewrap")
    for script in (known.oracle, known.noop, *known.wrong):
        request = replace(a_request(task), sampling=replace(SAMPLED, max_new_tokens=100_000))
        engine = ToyEngine(played(task, script))
        (trajectory,) = await collect([request], {name: domain}, engine, sandboxes, max_concurrency=1, deadline_s=60.0)
        assert trajectory.failure is None
        result = await replay(trajectory, task, domain, sandboxes)
        assert (result.standing, result.num_compared, result.ending) == ("equal", len(trajectory.turns), True), script
