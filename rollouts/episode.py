"""One episode, from its first completion to its trajectory.

    completion ─► episode.reply ─► done, or last turn, or context full ─► trajectory
        ▲              │ observation
        └── engine ◄───┘        next context = this context + exactly the sampled tokens + encode_reply(...)

What is raised on the way becomes a failed trajectory that keeps the turns so far. Only cancellation goes through.
That holds for the state hash too: a place that cannot be read any more is not one to trust a reward from.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from assay.errors import SandboxLaunchError
from assay.ids import derive_seed
from assay.records import Cause, EndReason, Failure, FinishReason, Image, RolloutRequest, Trajectory, Turn, record
from environments.base import Domain, Episode, Outcome, Reply
from environments.sandboxes.base import Backend
from rollouts.concurrency import Clock
from rollouts.engines.base import Engine, SampleRequest
from rollouts.failures import DeadlinePassed, failure_of
from rollouts.images import NUM_LEFT_OUT, images_in, without_images
from rollouts.plan import sampling_for
from rollouts.sampling import Drawn, draw, engine_faults

log = logging.getLogger("assay")
CLOSE_S = 30.0
T = TypeVar("T", int, float)


@record
class Limits:
    """What one rollout may use. Times in seconds; None means no limit.

    `deadline_s`, all turns and the waiting for the engine, is ours: passing it is invalid(deadline). `agent_timeout_s`,
    the environment's time spent on the agent's actions, is the agent's: passing it ends the episode, which is graded.
    """

    deadline_s: float
    agent_timeout_s: float | None = None
    max_context_tokens: int | None = None
    launch_retries: int = 0


@record
class Surroundings:
    """What all episodes of one collection share.

    `sandbox` is the label written to trajectories; with `state_hashes` every turn records its episode's state hash.
    """

    engine: Engine
    sandboxes: Backend
    sandbox: str
    limits: Limits
    clock: Clock
    now: Callable[[], str]
    state_hashes: bool = False


def end_of(reply: Reply, finish_reason: FinishReason, num_turns: int, max_turns: int) -> EndReason | None:
    """Why the episode ends with this reply to its turn number `num_turns` (from 1); None when it goes on."""
    if not reply.done and num_turns < max_turns:
        return None
    if finish_reason == "length":
        return "truncated"
    return "done" if reply.done else "max_turns"


def tighter(run: T | None, task: T | None) -> T | None:
    """The smaller of the run's limit and the task's own; None where neither has one."""
    return min((limit for limit in (run, task) if limit is not None), default=None)


def figures_of(
    num_turns: int, num_invalid_actions: int, outcome: Outcome, num_images_left_out: int = 0
) -> dict[str, float]:
    """A trajectory's metrics: what every episode counts, and what this one's outcome says."""
    counts = {"num_turns": float(num_turns), "num_invalid_actions": float(num_invalid_actions)}
    if num_images_left_out:
        counts[NUM_LEFT_OUT] = float(num_images_left_out)
    return counts | dict(outcome.metrics)


class EpisodeRun:
    """One episode under way. Its clock and its deadline start when it is made."""

    def __init__(self, request: RolloutRequest, domain: Domain, around: Surroundings) -> None:
        self.request = request
        self.domain = domain
        self.around = around
        self.started_at = around.now()
        self.started = around.clock()
        self.deadline = asyncio.get_running_loop().time() + around.limits.deadline_s
        self.sampling = sampling_for(request.task, request.sampling)
        self.turns: list[Turn] = []
        self.pending: Drawn | None = None
        self.acted_s: list[float] = []
        self.num_invalid_actions = self.num_images_left_out = 0
        self.images = images_in(request.task.prompt)

    async def finish(self, first: Drawn | Failure) -> Trajectory:
        """Play on from the first completion; a failure to draw it is the episode's failure."""
        if isinstance(first, Failure):
            return self._trajectory("failed", Outcome(submission=""), first)
        self.pending = first
        try:
            end, outcome = await self._play(first)
        except Exception as error:
            return self._trajectory("failed", Outcome(submission=""), failure_of(error, unknown=Cause.ENVIRONMENT))
        return self._trajectory(end, outcome, None)

    async def _play(self, first: Drawn) -> tuple[EndReason, Outcome]:
        episode: Episode | None = None
        try:
            async with asyncio.timeout_at(self.deadline) as limit:
                episode = await self._open()
                end = await self._turns(episode, first)
                return end, await episode.outcome()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlinePassed(f"The rollout did not end within {self.around.limits.deadline_s:g} s.") from error
        finally:
            if episode is not None:
                await close_episode(episode, self.request.id)

    async def _open(self) -> Episode:
        for _ in range(self.around.limits.launch_retries):
            try:
                return await self.domain.open(self.request.task, self.around.sandboxes)
            except SandboxLaunchError as error:
                log.info("rollout %s: sandbox launch failed, trying again: %s", self.request.id, error)
        return await self.domain.open(self.request.task, self.around.sandboxes)

    async def _turns(self, episode: Episode, drawn: Drawn) -> EndReason:
        while True:
            reply = await self._act(episode, drawn)
            if reply is None:
                self._keep(drawn)
                return "agent_timeout"
            end, prompt_ids = self._continue(drawn, reply)
            state_hash = await episode.state_hash() if self.around.state_hashes else ""
            if end:
                self._keep(drawn, reply.action, state_hash=state_hash)
                return end
            self._keep(drawn, reply.action, reply.observation, state_hash, reply.images)
            self.images += reply.images
            drawn = self.pending = await self._draw(prompt_ids)

    async def _act(self, episode: Episode, drawn: Drawn) -> Reply | None:
        """The environment's reply, or None when the agent's time is used up."""
        budget = tighter(self.around.limits.agent_timeout_s, self.request.task.agent_timeout_s)
        started = self.around.clock()
        try:
            async with asyncio.timeout(None if budget is None else budget - sum(self.acted_s)) as limit:
                reply = await episode.reply(self._text(drawn))
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            self.acted_s.append(self.around.clock() - started)
        self.num_invalid_actions += not reply.valid_action
        if not reply.images or self.around.engine.takes_images:
            return reply
        self.num_images_left_out += len(reply.images)
        return without_images(reply)

    def _continue(self, drawn: Drawn, reply: Reply) -> tuple[EndReason | None, tuple[int, ...]]:
        """Why the episode ends here, or the context of the next turn."""
        max_turns = self.request.task.max_turns
        if end := end_of(reply, drawn.completion.finish_reason, len(self.turns) + 1, max_turns):
            return end, ()
        with engine_faults():
            between = self.around.engine.encode_reply(drawn.completion, reply.observation, reply.images)
        prompt_ids = (*drawn.prompt_ids, *drawn.completion.token_ids, *between)
        limit = tighter(self.around.limits.max_context_tokens, self.request.task.max_context_tokens)
        full = limit is not None and len(prompt_ids) + self.sampling.max_new_tokens > limit
        return ("truncated" if full else None), prompt_ids

    async def _draw(self, prompt_ids: tuple[int, ...]) -> Drawn:
        seed = derive_seed(self.sampling.seed, self.request.id, len(self.turns))
        request = SampleRequest(
            prompt_ids=prompt_ids, num_samples=1, sampling=self.sampling, seed=seed, images=self.images
        )
        return (await draw(self.around.engine, request, self.around.clock))[0]

    def _text(self, drawn: Drawn) -> str:
        with engine_faults():
            return self.around.engine.decode(drawn.completion.token_ids)

    def _keep(
        self,
        drawn: Drawn,
        action: str = "",
        observation: str = "",
        state_hash: str = "",
        images: tuple[Image, ...] = (),
    ) -> None:
        self.turns.append(self._turn(drawn, action, observation, state_hash, images))
        self.pending = None

    def _turn(
        self,
        drawn: Drawn,
        action: str = "",
        observation: str = "",
        state_hash: str = "",
        images: tuple[Image, ...] = (),
    ) -> Turn:
        index = len(self.turns)
        return Turn(
            index=index,
            prompt_ids=drawn.prompt_ids,
            completion_ids=drawn.completion.token_ids,
            logprobs=drawn.completion.logprobs,
            completion=self._text(drawn),
            finish_reason=drawn.completion.finish_reason,
            policy_version=drawn.policy_version,
            action=action,
            observation=observation,
            sample_s=drawn.sample_s,
            act_s=self.acted_s[index] if index < len(self.acted_s) else 0.0,
            state_hash=state_hash,
            images=images,
        )

    def _trajectory(self, end: EndReason, outcome: Outcome, failure: Failure | None) -> Trajectory:
        request, task = self.request, self.request.task
        # A turn whose action failed was sampled all the same: it stays, without action and observation.
        unfinished = [self._turn(self.pending)] if self.pending else []
        turns = (*self.turns, *unfinished)
        return Trajectory(
            id=request.id,
            group_id=request.group_id,
            run_id=request.run_id,
            task_id=task.id,
            task_hash=task.content_hash,
            domain=task.domain,
            level=task.level,
            environment_version=task.environment_version,
            purpose=request.purpose,
            sampling=request.sampling,
            index=request.index,
            first_policy=turns[0].policy_version if turns else request.policy_version,
            last_policy=turns[-1].policy_version if turns else request.policy_version,
            turns=turns,
            end=end,
            submission=outcome.submission,
            metrics=figures_of(len(turns), self.num_invalid_actions, outcome, self.num_images_left_out),
            failure=failure,
            sandbox=self.around.sandbox,
            started_at=self.started_at,
            wall_s=self.around.clock() - self.started,
        )


async def close_episode(episode: Episode, rollout: str) -> None:
    """A place that cannot be closed is the machine's trouble; what the rollout did stands."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await episode.close()
    except Exception:
        log.exception("rollout %s: its episode could not be closed", rollout)
