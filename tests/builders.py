"""The smallest valid records, and toy plugins that do exactly what a test tells them to."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from assay.errors import SandboxLaunchError, SandboxUnsupported
from assay.ids import content_hash
from assay.records import (
    Cause,
    Failure,
    Image,
    Message,
    Purpose,
    RewardTerm,
    RolloutRequest,
    SamplingParams,
    Source,
    Split,
    TaskSpec,
    Tool,
    Trajectory,
    Turn,
    Verdict,
    VerifiedTrajectory,
)
from assay.registry import PluginConfig
from environments.base import Card, Domain, Outcome, Reply, Solutions
from environments.sandboxes.base import (
    INITIAL,
    Backend,
    BackendReport,
    Collected,
    CollectLimits,
    ExecResult,
    Provenance,
    SandboxSpec,
)
from rollouts.engines.base import Completion, SampleRequest

POLICY = "p_toy"
SAMPLED = SamplingParams(temperature=1.0, max_new_tokens=16, seed=7)
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=16)


def a_task(name: str = "a", *, split: Split = "train", answer: str | None = None, max_turns: int = 3) -> TaskSpec:
    """A toy task whose answer is its name unless told otherwise."""
    answer = name if answer is None else answer
    return TaskSpec(
        id=f"toy/{split}/{name}",
        domain="toy",
        environment_version="1",
        split=split,
        level=1,
        template=f"say {name}",
        answer_digest=content_hash(answer),
        prompt=(Message(role="user", content=f"say {name}"),),
        public={},
        hidden={"answer": answer},
        max_turns=max_turns,
        max_new_tokens=16,
    )


def a_request(task: TaskSpec | None = None, index: int = 0, *, purpose: Purpose = "train") -> RolloutRequest:
    return RolloutRequest(
        task=task or a_task(), policy_version=POLICY, sampling=SAMPLED, index=index, purpose=purpose, run_id="r"
    )


def a_turn(text: str = "a", index: int = 0, *, prompt_ids: tuple[int, ...] = (1, 2)) -> Turn:
    """Tokens are character codes; every log-probability is -0.5."""
    ids = tuple(map(ord, text))
    return Turn(
        index=index,
        prompt_ids=prompt_ids,
        completion_ids=ids,
        logprobs=(-0.5,) * len(ids),
        completion=text,
        finish_reason="stop",
        policy_version=POLICY,
        action=text,
        observation="",
        sample_s=0.1,
        act_s=0.0,
    )


def a_trajectory(
    request: RolloutRequest | None = None, text: str = "a", *, failure: Failure | None = None
) -> Trajectory:
    request = request or a_request()
    return Trajectory(
        id=request.id,
        group_id=request.group_id,
        run_id=request.run_id,
        task_id=request.task.id,
        task_hash=request.task.content_hash,
        domain=request.task.domain,
        level=request.task.level,
        environment_version=request.task.environment_version,
        purpose=request.purpose,
        sampling=request.sampling,
        index=request.index,
        first_policy=request.policy_version,
        last_policy=request.policy_version,
        turns=(a_turn(text),),
        end="failed" if failure else "done",
        submission=text,
        metrics={},
        failure=failure,
        sandbox="toy",
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=0.1,
    )


def a_verdict(reward: float = 1.0) -> Verdict:
    term = RewardTerm(name="answer", value=reward, weight=1.0)
    return Verdict.of((term,), passed=reward == 1.0, judged="in_process")


def a_verified(trajectory: Trajectory | None = None, verdict: Verdict | None = None) -> VerifiedTrajectory:
    return VerifiedTrajectory(
        trajectory=trajectory or a_trajectory(), verdict=verdict or a_verdict(), verifier_version="1", verify_s=0.1
    )


def an_invalid(cause: Cause = Cause.SANDBOX) -> Verdict:
    return Verdict.invalid(cause, "it broke")


def an_exec_result(**changes: Any) -> ExecResult:
    made = ExecResult(
        exit_code=0,
        signal=None,
        stdout="",
        stderr="",
        truncated=False,
        timed_out=False,
        oom_killed=False,
        wall_s=0.0,
        cpu_s=None,
        peak_memory_bytes=None,
        limits_enforced=(),
        provenance=Provenance(backend="toy", version="1", image_digest="", layer_digests=(), spec_hash=""),
    )
    return replace(made, **changes)


class ToySandbox:
    """A place that only counts itself."""

    def __init__(self, backend: "ToyBackend", number: int) -> None:
        self.id = f"toy-{number}"
        self.capabilities: frozenset[str] = frozenset()
        self._backend = backend

    async def exec(self, command: Sequence[str] | str, **_: Any) -> ExecResult:
        return an_exec_result()

    async def read(self, path: str, *, max_bytes: int = 1 << 20) -> bytes:
        return b""

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        pass

    async def upload(self, source: Path, path: str = "") -> None:
        pass

    async def download(self, path: str, target: Path, *, limits: CollectLimits | None = None) -> Collected:
        return Collected(files=(), refused={}, num_bytes=0)

    async def state_hash(self) -> str:
        return "unchanged"

    async def snapshot(self) -> str:
        raise SandboxUnsupported("a toy has no snapshots")

    async def restore(self, snapshot: str = INITIAL) -> None:
        raise SandboxUnsupported("a toy has no snapshots")

    async def fork(self) -> "ToySandbox":
        raise SandboxUnsupported("a toy cannot fork")

    async def destroy(self) -> None:
        self._backend.alive.discard(self.id)


class ToyBackend:
    """Launch number n (from 0) fails where `fails(n)`."""

    id: ClassVar[str] = "toy"
    starts_slowly: ClassVar[bool] = False
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, fails: Callable[[int], bool] = lambda n: False) -> None:
        self.fails = fails
        self.num_created = 0
        self.alive: set[str] = set()
        self.most_alive = 0

    async def create(self, spec: SandboxSpec) -> ToySandbox:
        number, self.num_created = self.num_created, self.num_created + 1
        if self.fails(number):
            raise SandboxLaunchError(f"launch {number} failed")
        sandbox = ToySandbox(self, number)
        self.alive.add(sandbox.id)
        self.most_alive = max(self.most_alive, len(self.alive))
        return sandbox

    async def probe(self) -> BackendReport:
        return BackendReport(backend=self.id, version="1", works=True, detail="", limits_enforced=())

    def close(self) -> None:
        self.alive.clear()


class ToyEpisode:
    """Ends on any completion but `more`; `wait` hangs, `crash` raises, both in the environment."""

    def __init__(self, sandbox: ToySandbox) -> None:
        self._sandbox = sandbox
        self._last = ""

    async def reply(self, completion: str) -> Reply:
        if completion == "crash":
            raise RuntimeError("the environment has a bug")
        if completion == "wait":
            await asyncio.sleep(60)
        await asyncio.sleep(0)
        self._last = completion
        return Reply(
            action=completion, observation="go on", done=completion != "more", valid_action=completion != "more"
        )

    async def outcome(self) -> Outcome:
        return Outcome(submission=self._last)

    async def state_hash(self) -> str:
        return await self._sandbox.state_hash()

    async def close(self) -> None:
        await self._sandbox.destroy()


class ToyDomain(Domain):
    """Say the answer. Passes when `accepts(task, submission)`; episodes and verification take one sandbox each."""

    id: str = "toy"
    version: str = "1"
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, accepts: Callable[[TaskSpec, str], bool] | None = None) -> None:
        self.accepts = accepts or (lambda task, text: text.strip() == task.hidden["answer"])
        self.wrong: tuple[str, ...] = ("wrong",)
        self.equivalent: tuple[str, ...] = ()
        self.problems: list[str] = []

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        return a_task(f"{split}-{index}", split=split)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        return ()

    def card(self) -> Card:
        source = Source(name="assay", licence="Apache-2.0")
        return Card(summary="Say the answer", value="Says what it is told to say", kind="answer", source=source)

    def solutions(self, task: TaskSpec) -> Solutions:
        return Solutions.of_answers(
            oracle=task.hidden["answer"], noop="nothing done", wrong=self.wrong, equivalent=self.equivalent
        )

    def check(self, task: TaskSpec) -> list[str]:
        return self.problems

    async def open(self, task: TaskSpec, sandboxes: Backend) -> ToyEpisode:
        sandbox = await sandboxes.create(SandboxSpec())
        assert isinstance(sandbox, ToySandbox)
        return ToyEpisode(sandbox)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        sandbox = await sandboxes.create(SandboxSpec())
        try:
            return a_verdict(float(self.accepts(task, outcome.submission)))
        finally:
            await sandbox.destroy()


Script = Callable[[str, int], str]
TURN = "\nuser: "


def played(task: TaskSpec, *scripts: Sequence[str]) -> Script:
    """What a `ToyEngine` says so that sample i plays script i; the last completion is said again if need be."""
    told = len(ToyEngine().encode_chat(task.prompt, task.tools))

    def say(prompt: str, index: int) -> str:
        turn, so_far = prompt[told:].count(TURN), prompt[told:]
        mine = scripts[index] if not turn else next(s for s in scripts if so_far.startswith(f"{s[0]}{TURN}"))
        return mine[min(turn, len(mine) - 1)]

    return say


class ToyEngine:
    """Says `script(prompt text, sample index)`. Tokens are character codes, 0 ends; log-probabilities are -0.5."""

    id: ClassVar[str] = "toy"
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, script: Script = lambda prompt, index: "a") -> None:
        self.script = script
        self.version = POLICY
        self.asked: list[SampleRequest] = []
        self.takes_images = True

    @property
    def policy_version(self) -> str:
        return self.version

    def can_show_images(self, model: str) -> bool:
        return self.takes_images

    async def load(self, policy: Any, live: Any | None = None) -> None:
        self.version = policy.id

    async def sample(self, request: SampleRequest) -> list[Completion]:
        self.asked.append(request)
        await asyncio.sleep(0)
        prompt = self.decode(request.prompt_ids)
        return [self._complete(self.script(prompt, i), request) for i in range(request.num_samples)]

    def _complete(self, text: str, request: SampleRequest) -> Completion:
        ids = [*map(ord, text), 0]
        kept = tuple(ids[: request.sampling.max_new_tokens])
        return Completion(
            token_ids=kept, logprobs=(-0.5,) * len(kept), finish_reason="stop" if kept[-1] == 0 else "length"
        )

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        return tuple(map(ord, "".join(f"{m.role}: {m.content}\n" for m in messages)))

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        return tuple(map(ord, f"{TURN}{observation}\n"))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in token_ids if i)

    async def close(self) -> None:
        pass
