"""The sets of the package `reasoning-gym`: questions generated without end, each with a scorer of its own.

    build_domain("reasoning_gym/leg_counting", {"levels": [1, 2, 3]})

A level is a step of the set's curriculum. A question belongs to a split by its hash. Many sets have few possible
answers (yes or no), which splits must share: here an answer is told apart together with its question. What passes is
for the set's own scorer to say: its full score.
"""

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import EnvironmentAuthorError, VerifierError, unknown_choice
from assay.ids import content_hash, derive_seed
from assay.records import Cause, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, LeftOut, Outcome, ResourceProfile, Solutions
from environments.formats._line_worker import LineWorker
from environments.one_turn import OneTurn
from environments.rubric import score
from environments.sandboxes.base import Backend

DRAW_S, SCORE_S = 60.0, 30.0
# It mixes other sets and has no questions of its own.
NOT_A_SET = {"composite"}
_NAMED = re.compile(r'(?:DATASET_NAME\s*=\s*|register_dataset\(\s*)"([a-z0-9_]+)"')
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_ASK = "Write your final answer between <answer> and </answer>."


class ReasoningGymConfig(PluginConfig):
    """Difficulty of a set."""

    levels: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="Curriculum steps that tasks take in turn")
    max_new_tokens: int = Field(512, ge=8, le=65_536)


class ReasoningGym:
    """One domain per registered set."""

    id: ClassVar[str] = "reasoning_gym"
    Config: ClassVar[type[Any]] = ReasoningGymConfig

    def __init__(self, config: ReasoningGymConfig) -> None:
        self.config = config

    def missing(self) -> str:
        return "" if _version() else "Install it with `pip install 'assay[reasoning_gym]'`."

    def names(self) -> Sequence[str]:
        return _names() if _version() else ()

    def domain(self, name: str) -> Domain:
        if name not in self.names():
            raise unknown_choice("domain", f"reasoning_gym/{name}", [f"reasoning_gym/{each}" for each in self.names()])
        return ReasoningGymSet(name, self.config)


class ReasoningGymSet(Domain):
    """One set. Tasks keep the seed of their question: the package, at the version in `version`, makes it again."""

    Config: ClassVar[type[Any]] = ReasoningGymConfig

    def __init__(self, name: str, config: ReasoningGymConfig) -> None:
        self.name, self.config = name, config
        self.id = f"reasoning_gym/{name}"
        self.version = f"1+{_version()}"

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        """Raises EnvironmentAuthorError when the set cannot make one."""
        levels = self._levels()
        level = levels[index % len(levels)]
        drawn = self._draw(split, level, derive_seed(self.id, split, index, seed) % 2**31)
        question = drawn["question"].strip()
        return TaskSpec(
            id=f"{self.id}/{split}/{index:04d}",
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=content_hash([self.name, question]),
            answer_digest=content_hash([self.name, question, drawn["answer"]]),
            prompt=(Message(role="user", content=f"{question}\n\n{_ASK}"),),
            public={},
            hidden={"level": level, "seed": drawn["seed"], "answer": drawn["answer"]},
            max_turns=1,
            max_new_tokens=self.config.max_new_tokens,
            source=self._source(),
        )

    def card(self) -> Card:
        words = self.name.replace("_", " ")
        return Card(
            summary=f"Questions of {words}, generated",
            value=f"Reasons through {words}",
            kind="answer",
            source=self._source(),
            levels=tuple(sorted(set(self.config.levels))),
            profile=ResourceProfile(expected_s=0.01, memory_bytes=600 << 20),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        answer = task.hidden.get("answer")
        if not answer:
            raise EnvironmentAuthorError(f"{task.id}: the set gives no reference answer to prove the task by.")
        return Solutions.of_answers(
            oracle=_tagged(answer),
            noop=_tagged(""),
            wrong=[_tagged("I do not know"), f"{_tagged(answer)} or else {_tagged('?')}", "<answer>", "?"],
            equivalent=[f"I have thought about it.\n{_tagged(answer)}", f"<answer>{answer}</answer>\n"],
        )

    def check(self, task: TaskSpec) -> list[str]:
        return [f"hidden lacks {name!r}" for name in ("level", "seed", "answer") if name not in task.hidden]

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return OneTurn(lambda completion: answer_in(completion) is not None)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if missing := self.check(task):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {'; '.join(missing)}")
        answer = answer_in(outcome.submission)
        if not answer:
            return score(0.0, {}, passed=False, judged="out_of_process")
        try:
            (earned,) = await asyncio.to_thread(self._scores, task.hidden, [answer])
        except VerifierError as error:
            return Verdict.invalid(Cause.VERIFIER, str(error), judged="out_of_process")
        return score(earned, {}, passed=earned >= 1.0, judged="out_of_process")

    def _scores(self, hidden: Mapping[str, Any], answers: Sequence[str]) -> list[float]:
        order = {"name": self.name, "level": hidden["level"], "seed": hidden["seed"], "answers": list(answers)}
        scores: list[float] = _worker().ask({"do": "score", **order}, timeout_s=SCORE_S)["scores"]
        return scores

    def _draw(self, split: Split, level: int, seed: int) -> dict[str, Any]:
        order = {"do": "draw", "name": self.name, "level": level, "seed": seed, "heldout": split == "heldout"}
        try:
            return _worker().ask(order, timeout_s=DRAW_S)
        except VerifierError as error:
            raise EnvironmentAuthorError(f"{self.id}: no task for {split}, level {level}: {error}") from error

    def _levels(self) -> tuple[int, ...]:
        """The levels asked for at which the set can make items. Raises EnvironmentAuthorError when there is none."""
        usable, faults = _levels_of(self.name, self.config.levels)
        if not usable:
            told = "; ".join(f"level {level}: {why}" for level, why in faults.items())
            raise EnvironmentAuthorError(f"{self.id} cannot make tasks: {told}")
        return usable

    def left_out(self) -> Sequence[LeftOut]:
        """Levels at which the set fails; it is looked at when its first task is made."""
        return [
            LeftOut(where=self.id, key="level", value=str(level), why=why)
            for level, why in _seen_levels.get((self.name, self.config.levels), ((), {}))[1].items()
        ]

    def _source(self) -> Source:
        uri = "https://github.com/open-thought/reasoning-gym"
        return Source(name=self.id, licence="Apache-2.0", version=_version(), uri=uri)


def answer_in(completion: str) -> str | None:
    """What stands between the last pair of answer tags, without the space around it; None without tags."""
    found = _ANSWER.findall(completion[-100_000:])
    return found[-1].strip() if found else None


def _tagged(answer: str) -> str:
    return f"<answer>{answer}</answer>"


@lru_cache(maxsize=1)
def _version() -> str:
    """Of the installed package, empty without one."""
    try:
        return version("reasoning-gym")
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """The registered sets, read from the package's sources: importing it takes seconds."""
    spec = find_spec("reasoning_gym")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    sources = (path.read_text(encoding="utf-8") for folder in folders for path in Path(folder).rglob("*.py"))
    return tuple(sorted({name for text in sources for name in _NAMED.findall(text)} - NOT_A_SET))


_Levels = tuple[tuple[int, ...], Mapping[str, str]]
_seen_levels: dict[tuple[str, tuple[int, ...]], _Levels] = {}


def _levels_of(name: str, wanted: tuple[int, ...]) -> _Levels:
    """Levels that work, and why the others do not."""
    if (name, wanted) not in _seen_levels:
        found = _worker().ask({"do": "levels", "name": name, "wanted": list(wanted)}, timeout_s=DRAW_S)
        _seen_levels[name, wanted] = tuple(found["usable"]), found["faults"]
    return _seen_levels[name, wanted]


@lru_cache(maxsize=1)
def _worker() -> LineWorker:
    return LineWorker([sys.executable, "-m", "environments.formats._reasoning_gym_worker"], "reasoning_gym")
