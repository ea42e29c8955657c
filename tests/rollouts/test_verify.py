"""Trajectories become verdicts; nothing but a real verdict is graded."""

import asyncio
from typing import Any

import pytest

from assay.errors import EnvironmentAuthorError, SandboxLaunchError, VerifierError
from assay.records import Cause, Failure, TaskSpec, Trajectory, VerifiedTrajectory
from environments.base import Outcome
from environments.sandboxes.base import Backend
from rollouts.verify import verify
from tests.builders import ToyBackend, ToyDomain, a_request, a_task, a_trajectory


async def verified(
    trajectories: list[Trajectory], domain: ToyDomain | None = None, sandboxes: ToyBackend | None = None, **options: Any
) -> list[VerifiedTrajectory]:
    options = {"max_concurrency": 2} | options
    return await verify(trajectories, [a_task()], {"toy": domain or ToyDomain()}, sandboxes or ToyBackend(), **options)


async def test_verdicts_come_in_order_with_the_verifiers_version() -> None:
    right, wrong = a_trajectory(a_request(index=0), "a"), a_trajectory(a_request(index=1), "b")
    results = await verified([wrong, right, wrong])
    assert [(v.verdict.reward, v.verdict.passed, v.verifier_version) for v in results] == [
        (0.0, False, "1"),
        (1.0, True, "1"),
        (0.0, False, "1"),
    ]


async def test_a_failed_trajectory_keeps_its_cause_and_is_not_judged() -> None:
    sandboxes = ToyBackend()
    failed = a_trajectory(failure=Failure(cause=Cause.DEADLINE, detail="too slow"))
    (result,) = await verified([failed], sandboxes=sandboxes)
    assert result.verdict.failure == failed.failure
    assert result.verdict.reward is None
    assert sandboxes.num_created == 0


class Raising(ToyDomain):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (VerifierError("no tests collected"), Cause.VERIFIER),
        (ZeroDivisionError("bug"), Cause.VERIFIER),
        (TimeoutError("of something inside"), Cause.VERIFIER),
        (SandboxLaunchError("no room"), Cause.SANDBOX),
        (OSError(28, "No space left on device"), Cause.INFRA),
        (MemoryError(), Cause.INFRA),
    ],
)
async def test_what_a_verifier_raises_is_invalid_with_a_cause_and_something_to_read(
    error: Exception, cause: Cause
) -> None:
    (result,) = await verified([a_trajectory()], Raising(error))
    assert result.verdict.failure is not None
    assert result.verdict.failure.cause is cause
    assert str(error) in result.verdict.failure.detail
    assert result.verdict.failure.detail


async def test_something_that_is_no_verdict_is_invalid() -> None:
    class Sloppy(ToyDomain):
        async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Any:
            return 1.0

    (result,) = await verified([a_trajectory()], Sloppy())
    assert result.verdict.failure == Failure(cause=Cause.VERIFIER, detail="toy.verify returned float, not a Verdict.")


async def test_a_verifier_that_hangs_is_invalid() -> None:
    class Hanging(ToyDomain):
        async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Any:
            await asyncio.sleep(60)

    (result,) = await verified([a_trajectory()], Hanging(), timeout_s=0.05)
    assert result.verdict.failure is not None
    assert result.verdict.failure.cause is Cause.VERIFIER
    assert "0.05 s" in result.verdict.failure.detail


async def test_no_more_verifications_run_at_once_than_allowed() -> None:
    class Slow(ToyDomain):
        async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Any:
            sandbox = await sandboxes.create(None)  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
            await sandbox.destroy()
            return await super().verify(task, outcome, ToyBackend())

    sandboxes = ToyBackend()
    await verified([a_trajectory(a_request(index=i)) for i in range(9)], Slow(), sandboxes, max_concurrency=3)
    assert sandboxes.most_alive == 3


async def test_cancellation_goes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        await verified([a_trajectory()], Raising(asyncio.CancelledError()))


async def test_a_trajectory_of_changed_content_is_refused() -> None:
    old = a_trajectory(a_request(a_task(answer="another")))
    with pytest.raises(EnvironmentAuthorError, match=f"toy/train/a at content hash {old.task_hash}"):
        await verified([old])
