"""Play a trajectory again: the recorded completions on the recorded task, compared turn by turn with what was recorded.

    recorded completion ─► a new episode ─► action, observation, end, state hash ─► equal, or the first turn that is not

Nothing is sampled and nothing is judged. What varies by itself (a date, a random name) is the environment author's to
mend and shows as a divergence, except for how long a command says it took ("Ran 3 tests in 0.002s"), which every test
runner tells and none repeats. Trouble of the machine is neither equal nor a divergence.
"""

import asyncio
import difflib
import re
from collections.abc import Sequence
from typing import Literal

from assay.errors import ConfigurationError
from assay.ids import canonical_json
from assay.records import Cause, Failure, Image, TaskSpec, Trajectory, Turn, record
from environments.base import Domain, Episode, Outcome, Reply
from environments.sandboxes.base import Backend
from rollouts.episode import close_episode, end_of, figures_of
from rollouts.failures import DeadlinePassed, failure_of
from rollouts.images import NUM_LEFT_OUT, without_images

CONTINUES = "the episode goes on"
DURATION = re.compile(r"(?<=\bin )\d+(\.\d+)?(?= ?s(ec|econds?)?\b)")

Standing = Literal["equal", "diverges", "not_replayed"]


@record
class Difference:
    """One thing that came out otherwise: action, observation, images, end, state_hash, submission or metrics."""

    name: str
    recorded: str
    replayed: str

    def diff(self) -> list[str]:
        """A unified diff of the two as lines, control characters as escapes; never empty."""
        before, after = _visible(self.recorded), _visible(self.replayed)
        if before == after:
            before, after = repr(self.recorded), repr(self.replayed)
        sides = (before.split("\n"), after.split("\n"))
        return list(difflib.unified_diff(*sides, "recorded", "replayed", lineterm="", n=2))


@record
class Replay:
    """What replaying gave. `turn` (from 0) is the first that diverges; `failure` says why there is no answer.

    `num_compared` counts turns, the diverging one included, `num_hashes` those whose state hash was compared too. The
    end, the submission and the metrics are compared (`ending`) unless the trajectory failed or was stopped by its own
    time-out.
    """

    trajectory_id: str
    num_turns: int
    num_compared: int
    num_hashes: int
    ending: bool
    turn: int | None
    differences: tuple[Difference, ...]
    failure: Failure | None

    @property
    def standing(self) -> Standing:
        if self.failure is not None:
            return "not_replayed"
        return "diverges" if self.differences else "equal"


async def replay(
    trajectory: Trajectory, task: TaskSpec, domain: Domain, sandboxes: Backend, *, deadline_s: float = 1800.0
) -> Replay:
    """Replay a trajectory up to its last complete turn. `deadline_s` limits all of it, in seconds.

    Raises ConfigurationError when the task or the environment is not the recorded one, or no turn is complete.
    """
    _check(trajectory, task, domain)
    playback = _Playback(trajectory, task)
    differences: tuple[Difference, ...] = ()
    failure: Failure | None = None
    try:
        async with asyncio.timeout(deadline_s) as limit:
            differences = await playback.play(domain, sandboxes)
    except Exception as error:
        late = isinstance(error, TimeoutError) and limit.expired()
        told = DeadlinePassed(f"The replay did not end within {deadline_s:g} s.") if late else error
        failure = failure_of(told, unknown=Cause.ENVIRONMENT)
    return playback.result(differences, failure)


def complete_turns(trajectory: Trajectory) -> tuple[Turn, ...]:
    """The turns whose reply was recorded: all but one that broke or was stopped by the agent's time-out."""
    turns = trajectory.turns
    # A failed trajectory whose last turn has an observation broke after it, when the next one was to be drawn.
    broke = trajectory.end == "failed" and turns and not turns[-1].observation
    return turns[:-1] if broke or trajectory.end == "agent_timeout" else turns


class _Playback:
    """A replay under way: what was compared so far."""

    def __init__(self, trajectory: Trajectory, task: TaskSpec) -> None:
        self.trajectory = trajectory
        self.task = task
        self.turns = complete_turns(trajectory)
        self.ends = trajectory.end not in ("failed", "agent_timeout")
        self.num_compared = self.num_hashes = self.num_invalid_actions = self.num_images_left_out = 0
        self.ending = False

    async def play(self, domain: Domain, sandboxes: Backend) -> tuple[Difference, ...]:
        """The differences of the first turn that has any, or of the ending."""
        episode = await domain.open(self.task, sandboxes)
        try:
            for turn in self.turns:
                if differences := await self._turn(episode, turn):
                    return differences
            return self._ending(await episode.outcome()) if self.ends else ()
        finally:
            await close_episode(episode, self.trajectory.id)

    async def _turn(self, episode: Episode, turn: Turn) -> tuple[Difference, ...]:
        reply = self._as_told(turn, await episode.reply(turn.completion))
        state_hash = await episode.state_hash() if turn.state_hash else ""
        self.num_compared += 1
        self.num_hashes += bool(turn.state_hash)
        self.num_invalid_actions += not reply.valid_action
        # The observation of the turn that ends an episode is not recorded: no completion saw it.
        goes_on = self._goes_on(turn)
        seen = (turn.observation, reply.observation) if goes_on else ("", "")
        pictures = (_by_digest(turn.images), _by_digest(reply.images)) if goes_on else ("", "")
        return _differing(
            action=(turn.action, reply.action),
            observation=seen,
            images=pictures,
            end=self._ends(turn, reply),
            state_hash=(turn.state_hash, state_hash),
        )

    def _as_told(self, turn: Turn, reply: Reply) -> Reply:
        """The reply as the recorded policy got it: where its engine took no images, each was a note."""
        if not reply.images or NUM_LEFT_OUT not in self.trajectory.metrics:
            return reply
        self.num_images_left_out += len(reply.images)
        return without_images(reply)

    def _goes_on(self, turn: Turn) -> bool:
        return not self.ends or turn is not self.turns[-1]

    def _ends(self, turn: Turn, reply: Reply) -> tuple[str, str]:
        recorded = CONTINUES if self._goes_on(turn) else self.trajectory.end
        replayed = end_of(reply, turn.finish_reason, turn.index + 1, self.task.max_turns)
        # A context that was full ends an episode whatever the environment says; nothing here can tell.
        full = replayed is None and recorded == "truncated"
        return recorded, "truncated" if full else replayed or CONTINUES

    def _ending(self, outcome: Outcome) -> tuple[Difference, ...]:
        self.ending = True
        metrics = figures_of(len(self.turns), self.num_invalid_actions, outcome, self.num_images_left_out)
        recorded = dict(self.trajectory.metrics)
        return _differing(
            submission=(self.trajectory.submission, outcome.submission),
            metrics=("", "") if metrics == recorded else (_by_line(recorded), _by_line(metrics)),
        )

    def result(self, differences: tuple[Difference, ...], failure: Failure | None) -> Replay:
        return Replay(
            trajectory_id=self.trajectory.id,
            num_turns=len(self.trajectory.turns),
            num_compared=self.num_compared,
            num_hashes=self.num_hashes,
            ending=self.ending,
            turn=self.turns[self.num_compared - 1].index if differences else None,
            differences=differences,
            failure=failure,
        )


def _check(trajectory: Trajectory, task: TaskSpec, domain: Domain) -> None:
    if task.content_hash != trajectory.task_hash:
        raise ConfigurationError(
            f"Trajectory {trajectory.id} was recorded on {trajectory.task_id} at content hash {trajectory.task_hash}, "
            f"but the task given, {task.id}, has {task.content_hash}. Replay it on the task as it was recorded."
        )
    if domain.version != trajectory.environment_version:
        raise ConfigurationError(
            f"Trajectory {trajectory.id} was recorded with version {trajectory.environment_version!r} of "
            f"{trajectory.domain}; here is version {domain.version!r}, and only the recorded one can replay it. "
            "Use the release of Assay or of the domain that has it."
        )
    if not complete_turns(trajectory):
        raise ConfigurationError(
            f"Trajectory {trajectory.id} ended before its first turn was complete ({_stopped_by(trajectory)}), "
            "so there is nothing to compare. Choose one with a complete turn."
        )


def _stopped_by(trajectory: Trajectory) -> str:
    if trajectory.failure is None:
        return trajectory.end
    # The last line of a traceback is the one that says what happened.
    return f"{trajectory.failure.cause}: {trajectory.failure.detail.splitlines()[-1]}"


def _differing(**pairs: tuple[str, str]) -> tuple[Difference, ...]:
    return tuple(
        Difference(name=name, recorded=recorded, replayed=replayed)
        for name, (recorded, replayed) in pairs.items()
        if recorded != replayed and DURATION.sub("", recorded) != DURATION.sub("", replayed)
    )


def _by_digest(images: Sequence[Image]) -> str:
    return "\n".join(f"{image.media_type} {image.digest}" for image in images)


def _by_line(metrics: dict[str, float]) -> str:
    return "\n".join(f"{name}: {canonical_json(value)}" for name, value in sorted(metrics.items()))


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
