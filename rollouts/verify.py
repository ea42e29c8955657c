"""Trajectories in, verdicts out. The agent has ended; the domain judges what it left, in a place it never touched.

A failed trajectory is invalid with its own cause, without judging. A verifier that crashes, breaks its contract or
runs out of time is invalid(verifier); a sandbox that fails is invalid(sandbox). Nothing but a real verdict is graded.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic

from assay.errors import EnvironmentAuthorError, VerifierError, unknown_choice
from assay.progress import emit
from assay.records import Cause, TaskSpec, Trajectory, Verdict, VerifiedTrajectory
from environments.base import Domain, Outcome
from environments.sandboxes.base import Backend
from rollouts.concurrency import Clock, run_all
from rollouts.failures import failure_of

OnVerified = Callable[[VerifiedTrajectory], None]


async def judge(
    domain: Domain,
    task: TaskSpec,
    outcome: Outcome,
    sandboxes: Backend,
    *,
    timeout_s: float,
    timeout_cause: Cause = Cause.VERIFIER,
) -> Verdict:
    """The domain's verdict; whatever goes wrong becomes an invalid one. Only cancellation is raised."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            verdict = await domain.verify(task, outcome, sandboxes)
        if not isinstance(verdict, Verdict):
            raise VerifierError(f"{domain.id}.verify returned {type(verdict).__name__}, not a Verdict.")
        return verdict
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            return Verdict.invalid(timeout_cause, f"Verification did not end within {timeout_s:g} s.")
        failure = failure_of(error, unknown=Cause.VERIFIER)
        return Verdict.invalid(failure.cause, failure.detail)


async def verify(
    trajectories: Sequence[Trajectory],
    tasks: Iterable[TaskSpec],
    domain_of: Mapping[str, Domain],
    sandboxes: Backend,
    *,
    max_concurrency: int,
    timeout_s: float = 60.0,
    on_done: OnVerified | None = None,
    clock: Clock = monotonic,
) -> list[VerifiedTrajectory]:
    """One verified trajectory each, in order. `tasks` are found by content hash; `timeout_s` is one verification's.

    Raises, before any work, ConfigurationError for an unknown domain and EnvironmentAuthorError for a trajectory whose
    task is not among `tasks`.
    """
    task_of = {task.content_hash: task for task in tasks}
    for trajectory in trajectories:
        _check(trajectory, task_of, domain_of)
    slots = asyncio.Semaphore(max_concurrency)
    tell = _Reporter(len(trajectories), on_done)

    async def one(trajectory: Trajectory) -> VerifiedTrajectory:
        async with slots:
            started = clock()
            domain = domain_of[trajectory.domain]
            verdict = await _verdict(trajectory, task_of[trajectory.task_hash], domain, sandboxes, timeout_s)
            verified = VerifiedTrajectory(
                trajectory=trajectory, verdict=verdict, verifier_version=domain.version, verify_s=clock() - started
            )
            tell(verified)
            return verified

    return await run_all(one(trajectory) for trajectory in trajectories)


async def _verdict(
    trajectory: Trajectory, task: TaskSpec, domain: Domain, sandboxes: Backend, timeout_s: float
) -> Verdict:
    if trajectory.failure is not None:
        return Verdict.invalid(trajectory.failure.cause, trajectory.failure.detail)
    outcome = Outcome(submission=trajectory.submission, metrics=trajectory.metrics)
    return await judge(domain, task, outcome, sandboxes, timeout_s=timeout_s)


class _Reporter:
    def __init__(self, num_total: int, on_done: OnVerified | None) -> None:
        self.num_total = num_total
        self.num_done = self.num_valid = self.num_passed = 0
        self.on_done = on_done

    def __call__(self, verified: VerifiedTrajectory) -> None:
        verdict = verified.verdict
        self.num_done += 1
        self.num_valid += verdict.valid
        self.num_passed += verdict.passed
        if self.on_done:
            self.on_done(verified)
        emit(
            "verify",
            done=self.num_done,
            total=self.num_total,
            valid=self.num_valid,
            passed=self.num_passed,
            trajectory_id=verified.trajectory.id,
            task_id=verified.trajectory.task_id,
            domain=verified.trajectory.domain,
            reward=verdict.reward,
            note=_note(verdict),
            cause=verdict.failure.cause.value if verdict.failure else None,
        )


def _note(verdict: Verdict) -> str:
    """The most telling term: the weighted one that cost the most."""
    lost = max((t for t in verdict.terms if t.weight), key=lambda t: t.weight * (1 - t.value), default=None)
    return "" if lost is None or lost.value == 1.0 else f"{lost.name} {lost.value:.2f} {lost.note}".strip()


def _check(trajectory: Trajectory, task_of: Mapping[str, TaskSpec], domain_of: Mapping[str, Domain]) -> None:
    if trajectory.domain not in domain_of:
        raise unknown_choice("domain", trajectory.domain, domain_of)
    if trajectory.task_hash not in task_of:
        raise EnvironmentAuthorError(
            f"Trajectory {trajectory.id} is of task {trajectory.task_id} at content hash {trajectory.task_hash}, "
            f"which is not among the {len(task_of)} tasks given; verify it against the tasks it was rolled out on."
        )
