"""A domain small enough for the tiny model: sort four letters. Used as `tests.sort_letters:SortLetters`.

It is an ordinary domain seen through the public contract, so it also shows that a domain needs no place in the
repository.
"""

import random
from collections.abc import Sequence

from pydantic import Field

from assay.errors import SandboxError
from assay.ids import content_hash, derive_seed
from assay.records import Cause, Message, RewardTerm, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Outcome, Reply, Solutions
from environments.sandboxes.base import Backend, SandboxSpec

LETTERS = "abcdefgh"


class _Episode:
    def __init__(self) -> None:
        self._submission = ""

    async def reply(self, completion: str) -> Reply:
        self._submission = completion.strip()
        return Reply(action=self._submission, observation="", done=True)

    async def outcome(self) -> Outcome:
        return Outcome(submission=self._submission)

    async def state_hash(self) -> str:
        return ""

    async def close(self) -> None:
        pass


class SortLetters(Domain):
    """Given four letters, answer them in order; reward is the share of places that are right."""

    id: str = "sort_letters"
    version: str = "1"

    class Config(PluginConfig):
        use_sandbox: bool = Field(False, description="Open a sandbox per episode, so that its faults reach rollouts")

    def __init__(self, config: Config) -> None:
        self.config = config

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        rng = random.Random(derive_seed(seed, self.id, split, index))
        while True:
            letters = "".join(rng.choice(LETTERS) for _ in range(4))
            answer = "".join(sorted(letters))
            if (int(content_hash(answer), 16) % 4 == 0) == (split == "heldout"):
                return self._task(f"sort_letters/{split}/{index:04d}", split, letters, answer)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        return [self._task("sort_letters/train/defect-wrong-gold", "train", "dcba", "dcba")]

    def _task(self, task_id: str, split: Split, letters: str, answer: str) -> TaskSpec:
        return TaskSpec(
            id=task_id,
            domain="tests.sort_letters:SortLetters",
            environment_version=self.version,
            split=split,
            level=1,
            template=letters,
            answer_digest=content_hash(answer),
            prompt=(Message(role="user", content=letters),),
            public={"letters": letters},
            hidden={"answer": answer},
            max_turns=1,
            max_new_tokens=8,
        )

    def card(self) -> Card:
        source = Source(name="assay", licence="Apache-2.0", version=self.version)
        return Card(summary="Sort four letters", value="Knows the alphabet", kind="answer", source=source)

    def solutions(self, task: TaskSpec) -> Solutions:
        right = "".join(sorted(task.public["letters"]))
        return Solutions.of_answers(oracle=right, noop="", wrong=(right[::-1] + "x",), equivalent=(f" {right} ",))

    def check(self, task: TaskSpec) -> list[str]:
        return [] if task.hidden.get("answer") else ["hidden.answer is missing"]

    async def open(self, task: TaskSpec, sandboxes: Backend) -> _Episode:
        if self.config.use_sandbox:
            await (await sandboxes.create(SandboxSpec())).destroy()
        return _Episode()

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if self.config.use_sandbox:
            try:
                await (await sandboxes.create(SandboxSpec())).destroy()
            except SandboxError as error:
                return Verdict.invalid(Cause.SANDBOX, str(error))
        answer = task.hidden["answer"]
        given = outcome.submission
        share = sum(a == b for a, b in zip(answer, given, strict=False)) / 4 if len(given) == 4 else 0.0
        term = RewardTerm(name="places", value=share, weight=1.0)
        return Verdict.of((term,), passed=given == answer, judged="out_of_process")
