"""The contract of a domain: what is asked, how it is acted on, how it is scored, and the proof that it is sound.

    domain.make_task(split, i, seed) -> TaskSpec
    domain.open(task, sandboxes)     -> Episode  --reply(completion)-->  Reply ... -> submission
    domain.verify(task, submission)  -> Verdict          (after the agent has ended, in a place it never touched)
    domain.solutions(task)           -> Solutions        (what inspection must see accepted and rejected)

One file per domain in `environments/domains/`; one conformance suite runs over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

from assay.records import Split, TaskSpec, Verdict, record
from environments.sandboxes.base import Backend


@record
class Solutions:
    """Submissions with a known standing, in the form a policy would write them (a completion's text).

    `oracle` must pass; `equivalent` are other right answers; `noop` does nothing; `wrong` are plausible failures.
    """

    oracle: str
    noop: str
    wrong: tuple[str, ...]
    equivalent: tuple[str, ...]


@record
class Reply:
    """The answer to one completion: what was understood as the action, what it showed, whether it ended."""

    action: str
    observation: str
    done: bool
    valid_action: bool = True


@record
class Outcome:
    """What an episode leaves behind: the submission that is scored and figures for the process reward."""

    submission: str
    metrics: Mapping[str, float] = field(default_factory=dict)


class Episode(Protocol):
    """One run on one task. Not shared between rollouts."""

    async def reply(self, completion: str) -> Reply:
        """Act on one completion. Raises SandboxError when the place fails (invalid), never for a bad action."""
        ...

    def outcome(self) -> Outcome:
        """What to score, valid at any moment."""
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
    """A family of tasks with one kind of verifier. `version` changes whenever prompts or scoring change."""

    id: ClassVar[str]
    version: ClassVar[str]
    Config: ClassVar[type[Any]]

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        """Task `index` of a split; depends on its arguments only. Splits share no answer and no template instance."""
        ...

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """A few deliberately broken tasks, which inspection must catch; their ids contain `defect`."""
        ...

    def solutions(self, task: TaskSpec) -> Solutions:
        """Known-right and known-wrong submissions for inspection, and the oracle as demonstration."""
        ...

    def check(self, task: TaskSpec) -> list[str]:
        """Static contract: what is wrong with the task, in words; empty when nothing is."""
        ...

    def submit(self, task: TaskSpec, completion: str) -> Outcome:
        """The outcome of an episode whose only turn is this completion; runs nothing."""
        ...

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        """Start an episode."""
        ...

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        """Score what an episode left. Never raises for a bad submission; a broken place is `invalid(sandbox)`."""
        ...
