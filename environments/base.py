"""The contract of a domain: what is asked, how it is acted on, how it is scored, and the proof that it is sound.

    domain.make_task(split, i, seed) -> TaskSpec
    domain.open(task, sandboxes)     -> Episode  --reply(completion)-->  Reply ... -> Outcome
    domain.verify(task, outcome)     -> Verdict          (after the agent has ended, in a place it never touched)
    domain.solutions(task)           -> Solutions        (what inspection must see accepted and rejected)
    domain.card()                    -> Card             (what the catalogue shows)

A family of our own is one file in `environments/domains/`; a foreign format in `environments/formats/` gives many
domains. One conformance suite runs over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal, Protocol

from assay.records import Image, Source, Split, TaskSpec, Verdict, record
from environments.sandboxes.base import Backend

Script = tuple[str, ...]
"""Completions of one episode, turn by turn, as a policy would write them."""


@record
class Solutions:
    """Scripts with a known standing. An episode need not be over when its script is.

    `oracle` must pass; `equivalent` are other right ways; `noop` does nothing; `wrong` are plausible failures.
    `ladder` goes from good to bad: no rung may earn more than the one before it.
    """

    oracle: Script
    noop: Script
    wrong: tuple[Script, ...]
    equivalent: tuple[Script, ...]
    ladder: tuple[Script, ...] = ()

    @classmethod
    def of_answers(cls, *, oracle: str, noop: str, wrong: Sequence[str], equivalent: Sequence[str]) -> "Solutions":
        """Of a domain whose episodes have one turn."""
        return cls(
            oracle=(oracle,),
            noop=(noop,),
            wrong=tuple((text,) for text in wrong),
            equivalent=tuple((text,) for text in equivalent),
        )


@record
class Reply:
    """The answer to one completion: what was understood as the action, what it showed, whether it ended."""

    action: str
    observation: str
    done: bool
    valid_action: bool = True
    images: tuple[Image, ...] = ()


@record
class Outcome:
    """What an episode leaves behind: the submission that is scored and figures for the process reward.

    Both are stored, and verification sees nothing else of the episode, so it can be repeated at any time.
    """

    submission: str
    metrics: Mapping[str, float] = field(default_factory=dict)


@record
class ResourceProfile:
    """What one episode with its verification takes, without the engine: to plan with, not a limit.

    `expected_s` is wall time; `context_tokens` roughly what the longest context holds.
    """

    cpu_cores: float = 1.0
    memory_bytes: int = 256 << 20
    expected_s: float = 0.1
    num_sandboxes: int = 0
    context_tokens: int = 1024


@record
class Card:
    """What the catalogue shows of a domain. `value` says what a policy that learns it can do afterwards."""

    summary: str
    value: str
    kind: Literal["answer", "extraction", "code", "shell", "tools", "modelling", "game"]
    source: Source
    levels: tuple[int, ...] = (1,)
    images: bool = False
    profile: ResourceProfile = field(default_factory=ResourceProfile)


@record
class LeftOut:
    """Something of a foreign set that could not become a task: where (file or id), which key and value, why."""

    where: str
    why: str
    key: str = ""
    value: str = ""
    unsupported: bool = False

    def line(self) -> str:
        """One sentence. `unsupported` things are sound, but not possible here."""
        what = f"{self.key} = {self.value}: " if self.key else ""
        return f"{self.where}: {what}{self.why}"


class Episode(Protocol):
    """One run on one task. Not shared between rollouts."""

    async def reply(self, completion: str) -> Reply:
        """Act on one completion. Raises SandboxError when the place fails (invalid), never for a bad action."""
        ...

    async def outcome(self) -> Outcome:
        """What to score, valid at any moment. Raises SandboxError when what was left can't be brought out."""
        ...

    async def state_hash(self) -> str:
        """Digest of the state the replies so far left in the place, empty where there is no place with state.

        Episodes of one task that got the same completions have equal digests. Raises SandboxError.
        """
        ...

    async def close(self) -> None:
        """Idempotent; nothing of the episode is left."""
        ...


class Domain(Protocol):
    """A family of tasks with one kind of verifier. `version` changes whenever prompts or scoring change.

    Difficulty knobs are the keys of `Config`. A subclass inherits the answers for endless generated tasks.
    """

    id: str
    version: str
    Config: ClassVar[type[Any]]

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        """Task `index` of a split; depends on its arguments only. Splits share no answer and no template instance.

        Raises IndexError beyond `num_tasks`.
        """
        ...

    def num_tasks(self, split: Split) -> int | None:
        """How many there are; None when they are generated without end."""
        return None

    def left_out(self) -> Sequence[LeftOut]:
        """What of a foreign set did not become a task."""
        return ()

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """A few deliberately broken tasks, which inspection must catch; their ids contain `defect`."""
        return ()

    def card(self) -> Card:
        """For the catalogue."""
        ...

    def solutions(self, task: TaskSpec) -> Solutions:
        """Known-right and known-wrong scripts for inspection, and the oracle as demonstration.

        Raises EnvironmentAuthorError when the task has no reference solution.
        """
        ...

    def check(self, task: TaskSpec) -> list[str]:
        """Static contract: what is wrong with the task, in words; empty when nothing is."""
        ...

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        """Start an episode."""
        ...

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        """Score what an episode left. Never raises for a bad submission; a broken place is `invalid(sandbox)`."""
        ...


def take(domain: Domain, split: Split, num: int, seed: int) -> list[TaskSpec]:
    """The first `num` tasks of a split, fewer where there are fewer."""
    there = domain.num_tasks(split)
    return [domain.make_task(split, index, seed) for index in range(num if there is None else min(num, there))]


async def play(domain: Domain, task: TaskSpec, script: Script, sandboxes: Backend) -> Outcome:
    """The outcome of a real episode that gets these completions, fewer if it ends before. Raises as `Episode` does."""
    episode = await domain.open(task, sandboxes)
    try:
        for completion in script[: task.max_turns]:
            if (await episode.reply(completion)).done:
                break
        return await episode.outcome()
    finally:
        await episode.close()
