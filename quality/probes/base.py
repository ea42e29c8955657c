"""What a probe is: one question about one task, answered by evidence that a person can repeat.

    Probe.run(task, domain, sandboxes, seed) -> Evidence      FOUND: a defect, with the input that shows it
         └── look(Bench) -> Result                            CLEAR: looked, found none
                                                              UNKNOWN: could not look

One file per probe; `level` orders them by cost (0 static, 1 a run, 2 several runs, 3 many). A place that breaks and
a probe that crashes leave UNKNOWN with the cause, never CLEAR, and never blame the task.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from time import monotonic
from typing import Any, ClassVar

from assay.errors import EnvironmentAuthorError, SandboxError, is_transient
from assay.records import Cause, Evidence, Finding, TaskSpec, Verdict, record
from assay.registry import PluginConfig
from environments.base import Domain, Outcome, Script, play
from environments.sandboxes.base import Backend, BackendReport, Sandbox, SandboxSpec
from rollouts.failures import failure_of, traceback_tail
from rollouts.verify import judge

JUDGE_S = 120.0
SHOWN = 400
# A rollout lost to a failed launch is one row of many; a probe lost to it would keep a sound task out.
LAUNCHES = 6


class Inconclusive(Exception):
    """The place failed, not the task: the probe could not look."""


@record
class Result:
    """What a probe saw. `tried` holds the inputs and what came of them."""

    finding: Finding
    summary: str
    tried: Mapping[str, Any] = field(default_factory=dict)


@record
class Tried:
    """One script and the verdict on what its episode left."""

    name: str
    script: Script
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """For `Evidence.tried`; long completions are cut, which `num_chars`, of all together, shows."""
        return {
            "name": self.name,
            "completions": [completion[:SHOWN] for completion in self.script],
            "num_chars": sum(map(len, self.script)),
            "passed": self.verdict.passed,
            "reward": self.verdict.reward,
            "invalid": str(self.verdict.failure.detail) if self.verdict.failure else None,
        }


class Bench:
    """The task under inspection and the means to try submissions on it."""

    def __init__(self, task: TaskSpec, domain: Domain, sandboxes: Backend, seed: int) -> None:
        self.task = task
        self.domain = domain
        self.sandboxes = CountingBackend(sandboxes)
        self.seed = seed

    async def play(self, name: str, script: Script) -> Tried:
        """Judge what a real episode with these completions leaves."""
        try:
            async with asyncio.timeout(JUDGE_S):
                outcome = await play(self.domain, self.task, script, self.sandboxes)
        except TimeoutError as error:
            raise Inconclusive(f"{name}: its episode did not end within {JUDGE_S:g} s") from error
        except Exception as error:
            failure = failure_of(error, unknown=Cause.ENVIRONMENT)
            return self._tried(name, script, Verdict.invalid(failure.cause, failure.detail))
        return self._tried(name, script, await self._judge(outcome))

    async def _judge(self, outcome: Outcome) -> Verdict:
        # A time-out on a busy machine proves nothing against the task, so it counts as the place's.
        return await judge(
            self.domain, self.task, outcome, self.sandboxes, timeout_s=JUDGE_S, timeout_cause=Cause.DEADLINE
        )

    @staticmethod
    def _tried(name: str, script: Script, verdict: Verdict) -> Tried:
        if verdict.failure and verdict.failure.cause not in (Cause.VERIFIER, Cause.ENVIRONMENT, Cause.TAMPERED):
            raise Inconclusive(f"{name}: {verdict.failure.cause}: {verdict.failure.detail}")
        return Tried(name=name, script=script, verdict=verdict)


class Probe(ABC):
    """Base of all probes. `version` changes whenever the same task could get another finding."""

    id: ClassVar[str]
    version: str
    level: ClassVar[int]

    class Config(PluginConfig):
        pass

    def __init__(self, config: Any = None) -> None:
        self.config: Any = config if config is not None else self.Config()

    @abstractmethod
    async def look(self, bench: Bench) -> Result:
        """Look for the defect. What it raises becomes UNKNOWN."""

    async def run(self, task: TaskSpec, domain: Domain, sandboxes: Backend, seed: int) -> Evidence:
        """Evidence on `task` at its content hash. Raises nothing but cancellation."""
        bench, started = Bench(task, domain, sandboxes, seed), monotonic()
        result = await self._look(bench)
        return Evidence(
            task_id=task.id,
            task_hash=task.content_hash,
            domain=task.domain,
            environment_version=task.environment_version,
            probe=self.id,
            probe_version=self.version,
            finding=result.finding,
            summary=result.summary,
            tried=result.tried,
            seed=seed,
            wall_s=monotonic() - started,
            num_sandboxes=bench.sandboxes.num_created,
        )

    async def _look(self, bench: Bench) -> Result:
        try:
            return await self.look(bench)
        except (Inconclusive, EnvironmentAuthorError) as error:
            return Result(finding=Finding.UNKNOWN, summary=f"could not look: {error}")
        except Exception as error:
            return Result(finding=Finding.UNKNOWN, summary=f"the probe crashed: {traceback_tail(error)}")


def some(options: Sequence[Script], most: int, seed: int) -> list[int]:
    """Indices of at most `most` of the options, drawn by the seed, in order."""
    return sorted(random.Random(seed).sample(range(len(options)), min(most, len(options))))


def accepted(tried: Sequence[Tried], what: str) -> Result:
    """FOUND unless every submission passed."""
    bad = [t for t in tried if not t.verdict.passed]
    return _told(tried, bad, f"{what} accepted", "rejected")


def rejected(tried: Sequence[Tried], what: str) -> Result:
    """FOUND unless every submission was judged and failed."""
    bad = [t for t in tried if t.verdict.passed or not t.verdict.valid]
    return _told(tried, bad, f"{what} rejected", "accepted")


def _told(tried: Sequence[Tried], bad: Sequence[Tried], clear: str, otherwise: str) -> Result:
    return Result(
        finding=Finding.FOUND if bad else Finding.CLEAR,
        summary="; ".join(_one(t, otherwise) for t in bad) or clear,
        tried={"submissions": [t.as_json() for t in tried]},
    )


def _one(tried: Tried, otherwise: str) -> str:
    if tried.verdict.failure:
        return f"{tried.name}: the {tried.verdict.failure.cause} broke: {tried.verdict.failure.detail}"
    return f"{tried.name} {otherwise} (reward {tried.verdict.reward:g})"


class CountingBackend:
    """A backend that counts what it makes, and launches again where a launch failed for a moment."""

    id: ClassVar[str] = "counting"
    starts_slowly: ClassVar[bool] = False
    Config: ClassVar[type[Any]] = PluginConfig

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.num_created = 0

    async def create(self, spec: SandboxSpec) -> Sandbox:
        sandbox = await self._launch(spec)
        self.num_created += 1
        return sandbox

    async def _launch(self, spec: SandboxSpec) -> Sandbox:
        for _ in range(LAUNCHES - 1):
            try:
                return await self._backend.create(spec)
            except SandboxError as error:
                if not is_transient(error):
                    raise
        return await self._backend.create(spec)

    async def probe(self) -> BackendReport:
        return await self._backend.probe()

    def close(self) -> None:
        self._backend.close()
