"""Requests in, trajectories out: the scheduler of episodes. A failed rollout is a row, not an exception.

    group ──► one SampleRequest for all its first turns (the prompt is computed once)
                 ├─ episode 0 ─► trajectory      (episode.py plays it)
                 ├─ episode 1 ─► trajectory
                 └─ ...

Causes: the sandbox's errors, the engine's errors, the deadline, the machine (memory, disk, descriptors); any other
exception is the environment's. Cancellation, and what `on_done` raises, go through and leave nothing running.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from assay.errors import EngineError, unknown_choice
from assay.ids import derive_seed
from assay.progress import emit
from assay.records import Cause, Failure, RolloutRequest, Trajectory
from environments.base import Domain
from environments.sandboxes.base import Backend
from rollouts.concurrency import Clock, Slots, run_all, utc_now
from rollouts.engines.base import Engine, SampleRequest
from rollouts.episode import EpisodeRun, Limits, Surroundings
from rollouts.failures import DeadlinePassed, failure_of
from rollouts.images import images_in, refuse_unseen
from rollouts.plan import group_requests, sampling_for
from rollouts.sampling import Drawn, draw, engine_faults

OnDone = Callable[[Trajectory], None]


async def collect(
    requests: Sequence[RolloutRequest],
    domain_of: Mapping[str, Domain],
    engine: Engine,
    sandboxes: Backend,
    *,
    max_concurrency: int,
    deadline_s: float,
    on_done: OnDone | None = None,
    agent_timeout_s: float | None = None,
    max_context_tokens: int | None = None,
    launch_retries: int = 0,
    state_hashes: bool = False,
    sandbox: str = "",
    clock: Clock = monotonic,
    now: Callable[[], str] = utc_now,
) -> list[Trajectory]:
    """One trajectory per distinct request, in the order of `requests`; at most `max_concurrency` episodes at once.

    `on_done` hears of each trajectory as it ends, in any order. `sandbox` labels the trajectories (default: the
    backend's id). `deadline_s`, `agent_timeout_s`, `max_context_tokens` and `launch_retries`: see `episode.Limits`.
    With `state_hashes` every turn records the digest of its episode's work dir; one that cannot be taken is a
    SandboxError like any other, and the rollout is invalid(sandbox).

    Raises EngineError when the engine serves another policy version than the one asked for, ConfigurationError for a
    task of an unknown domain, or with images in its prompt where the engine takes none; all before any work.
    """
    unique = list({request.id: request for request in requests}.values())
    _check(unique, domain_of, engine)
    limits = Limits(
        deadline_s=deadline_s,
        agent_timeout_s=agent_timeout_s,
        max_context_tokens=max_context_tokens,
        launch_retries=launch_retries,
    )
    around = Surroundings(
        engine=engine,
        sandboxes=sandboxes,
        sandbox=sandbox or sandboxes.id,
        limits=limits,
        clock=clock,
        now=now,
        state_hashes=state_hashes,
    )
    work = _Collection(domain_of, around, Slots(max_concurrency), _Reporter(len(unique), on_done))
    done = await run_all(work.group(members) for members in _chunks(unique, max_concurrency))
    by_id = {trajectory.id: trajectory for group in done for trajectory in group}
    return [by_id[request.id] for request in unique]


class _Collection:
    def __init__(self, domain_of: Mapping[str, Domain], around: Surroundings, slots: Slots, tell: OnDone) -> None:
        self.domain_of = domain_of
        self.around = around
        self.slots = slots
        self.tell = tell

    async def group(self, members: Sequence[RolloutRequest]) -> list[Trajectory]:
        """Siblings: sampled together once, then each on its own."""
        await self.slots.take(len(members))
        runs = [EpisodeRun(request, self.domain_of[request.task.domain], self.around) for request in members]
        firsts = await self._first_turns(members)
        return await run_all(self._one(run, first) for run, first in zip(runs, firsts, strict=True))

    async def _one(self, run: EpisodeRun, first: Drawn | Failure) -> Trajectory:
        try:
            trajectory = await run.finish(first)
            self.tell(trajectory)
            return trajectory
        finally:
            self.slots.give_back()

    async def _first_turns(self, members: Sequence[RolloutRequest]) -> Sequence[Drawn | Failure]:
        try:
            async with asyncio.timeout(self.around.limits.deadline_s) as limit:
                return await self._draw(members)
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            told = DeadlinePassed(f"The first turn took over {self.around.limits.deadline_s:g} s.") if late else error
            return [failure_of(told, unknown=Cause.ENVIRONMENT)] * len(members)

    async def _draw(self, members: Sequence[RolloutRequest]) -> list[Drawn]:
        request, indices = members[0], [member.index for member in members]
        with engine_faults():
            prompt_ids = self.around.engine.encode_chat(request.task.prompt, request.task.tools)
        # The indices are part of the seed: members drawn after an interruption must not repeat those before it.
        ask = SampleRequest(
            prompt_ids=prompt_ids,
            num_samples=len(members),
            sampling=sampling_for(request.task, request.sampling),
            seed=derive_seed(request.sampling.seed, request.group_id, indices),
            images=images_in(request.task.prompt),
        )
        return await draw(self.around.engine, ask, self.around.clock)


class _Reporter:
    """Tells `on_done` and the progress listeners, with counts."""

    def __init__(self, num_total: int, on_done: OnDone | None) -> None:
        self.num_total = num_total
        self.num_done = 0
        self.num_failed = 0
        self.on_done = on_done

    def __call__(self, trajectory: Trajectory) -> None:
        self.num_done += 1
        self.num_failed += trajectory.failure is not None
        if self.on_done:
            self.on_done(trajectory)
        emit(
            "rollout",
            done=self.num_done,
            total=self.num_total,
            failed=self.num_failed,
            trajectory_id=trajectory.id,
            domain=trajectory.domain,
            purpose=trajectory.purpose,
            end=trajectory.end,
            cause=trajectory.failure.cause.value if trajectory.failure else None,
        )


def _chunks(requests: Sequence[RolloutRequest], size: int) -> list[list[RolloutRequest]]:
    """Groups, those of more than `size` members in parts."""
    groups = group_requests(requests).values()
    return [group[i : i + size] for group in groups for i in range(0, len(group), size)]


def _check(requests: Sequence[RolloutRequest], domain_of: Mapping[str, Domain], engine: Engine) -> None:
    for request in requests:
        if request.task.domain not in domain_of:
            raise unknown_choice("domain", request.task.domain, domain_of)
        if request.policy_version != engine.policy_version:
            raise EngineError(
                f"The engine serves policy {engine.policy_version!r} but rollout {request.id} asks for "
                f"{request.policy_version!r}; load that version first."
            )
    if not engine.takes_images:
        refuse_unseen(
            [request.task for request in requests],
            f"the engine {engine.id!r} with the policy it serves",
            "Use a vision-language model with an engine that takes images",
        )
