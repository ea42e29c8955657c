"""The single-turn categories of the Berkeley function calling leaderboard (BFCL), each a domain.

    pip install --no-deps bfcl-eval      its data is enough, none of its requirements is needed
    build_domain("bfcl/parallel")        or with {"path": "folder with BFCL_v4_*.json and possible_answer/"}

Calls are read and compared here, by the published rules. One thing is added: a tool by which the model says that no
function fits. Where that is the right answer the leaderboard takes any text without a call, so that doing nothing would
pay; here it has to be said. `live_relevance` gives no arguments to compare: any call of a function passes there.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import ConfigurationError, EnvironmentAuthorError, unknown_choice
from assay.ids import content_hash
from assay.records import Cause, Message, Source, Split, TaskSpec, Tool, Verdict, record
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, LeftOut, Outcome, ResourceProfile, Solutions
from environments.formats import _bfcl_rows
from environments.formats._bfcl_match import example, num_matched
from environments.formats._bfcl_rows import Row
from environments.one_turn import OneTurn
from environments.rubric import score
from environments.sandboxes.base import Backend
from environments.tools import BadCall, Call, read_calls, say_call

CATEGORIES = (
    *("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance", "live_relevance"),
)
NONE_FITS = Tool(
    name="no_function_fits",
    description="Say that none of the other functions can answer the request, or that what they need is not given.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)
_SYSTEM = "Answer by calling the functions that the request needs, all of them in one message."


class BfclConfig(PluginConfig):
    """Where the data is."""

    path: str = Field("", description="Folder with BFCL_v4_*.json; empty means the installed package bfcl-eval")
    max_new_tokens: int = Field(512, ge=8, le=65_536)


class Bfcl:
    """One domain per category."""

    id: ClassVar[str] = "bfcl"
    Config: ClassVar[type[Any]] = BfclConfig

    def __init__(self, config: BfclConfig) -> None:
        self.config = config
        self._folder = Path(config.path) if config.path else _installed()

    def missing(self) -> str:
        if self._folder is None:
            return "Install its data with `pip install --no-deps bfcl-eval`, or set the option path."
        return "" if self._folder.is_dir() else f"There is no folder {self._folder}; correct the option path."

    def names(self) -> Sequence[str]:
        folder = self._folder
        return [each for each in CATEGORIES if folder is not None and _questions(folder, each).is_file()]

    def domain(self, name: str) -> Domain:
        if name not in self.names() or self._folder is None:
            raise unknown_choice("domain", f"bfcl/{name}", [f"bfcl/{each}" for each in self.names()])
        return BfclCategory(name, self._folder, self.config)


@record
class _Set:
    """A category as read: rows of each split, what was left out, and the digest of its files."""

    rows: Mapping[str, tuple[Row, ...]]
    left_out: tuple[LeftOut, ...]
    digest: str


class BfclCategory(Domain):
    """The rows of one category, in file order; a question belongs to a split by its hash. The seed plays no role."""

    Config: ClassVar[type[Any]] = BfclConfig

    def __init__(self, name: str, folder: Path, config: BfclConfig) -> None:
        self.name, self.config = name, config
        self.id = f"bfcl/{name}"
        self._set = _read(name, folder)
        self.version = f"1+{self._set.digest[:12]}"

    def num_tasks(self, split: Split) -> int:
        return len(self._set.rows[split])

    def left_out(self) -> Sequence[LeftOut]:
        return self._set.left_out

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        row = self._set.rows[split][index]
        return TaskSpec(
            id=f"{self.id}/{split}/{index:04d}",
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=2 if "parallel" in self.name or "multiple" in self.name else 1,
            template=row.id,
            answer_digest=content_hash([row.question_digest, row.wanted]),
            prompt=(Message(role="system", content=_SYSTEM), *row.messages),
            public={"row": row.id},
            hidden={"wanted": [dict(each) for each in row.wanted]},
            max_turns=1,
            max_new_tokens=self.config.max_new_tokens,
            tools=(*row.tools, NONE_FITS),
            source=self._source(),
        )

    def card(self) -> Card:
        return Card(
            summary=f"Function calls of the BFCL category {self.name}",
            value="Says that no function fits where none does" if self._none_fits else "Calls the right functions",
            kind="tools",
            source=self._source(),
            levels=(1, 2),
            profile=ResourceProfile(expected_s=0.001, context_tokens=2048),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        if "wanted" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'wanted'; load the task afresh.")
        none, right = say_call(NONE_FITS.name), self._oracle(task)
        other = none if right != none else _said([_sample(task.tools[0])])
        first = right.partition("</tool_call>")[0] + "</tool_call>"
        return Solutions.of_answers(
            oracle=right,
            noop="",
            wrong=[other, "I would call a function.", f"{right}\n{none}" if right != none else f"{none}\n{other}"],
            equivalent=[f"I see.\n{right}", *([first] if self._any_call else [])],
        )

    def check(self, task: TaskSpec) -> list[str]:
        if "wanted" not in task.hidden:
            return ["hidden lacks 'wanted'"]
        names = {tool.name for tool in task.tools}
        unknown = [name for each in task.hidden["wanted"] for name in each if name not in names]
        return [f"the answer calls {name!r}, which is not among the functions" for name in unknown]

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return OneTurn(lambda completion: bool(_calls(completion, task)))

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if faults := self.check(task):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {'; '.join(faults)}")
        calls = _calls(outcome.submission, task)
        share = self._share(calls, task.hidden["wanted"])
        return score(share, {}, passed=share == 1.0, judged="out_of_process")

    def _share(self, calls: Sequence[Call], wanted: Sequence[Mapping[str, Any]]) -> float:
        """Of the calls made or wanted, whichever are more, those that are right; 0 for a call beside "none fits"."""
        nothing = [call for call in calls if call.name == NONE_FITS.name]
        if self._none_fits:
            return float(len(nothing) == len(calls) == 1)
        if nothing or not calls:
            return 0.0
        return 1.0 if self._any_call else num_matched(calls, wanted) / max(len(calls), len(wanted))

    def _oracle(self, task: TaskSpec) -> str:
        if self._none_fits:
            return say_call(NONE_FITS.name)
        wanted = task.hidden["wanted"]
        return _said([_sample(task.tools[0])] if self._any_call else [example(each) for each in wanted])

    @property
    def _none_fits(self) -> bool:
        return self.name.endswith("irrelevance")

    @property
    def _any_call(self) -> bool:
        return self.name == "live_relevance"

    def _source(self) -> Source:
        uri = "https://github.com/ShishirPatil/gorilla"
        return Source(name=self.id, licence="Apache-2.0", version=_version(), uri=uri, digest=self._set.digest)


def _calls(completion: str, task: TaskSpec) -> list[Call]:
    try:
        return read_calls(completion, task.tools)
    except BadCall:
        return []


def _said(calls: Sequence[Call]) -> str:
    return "\n".join(say_call(call.name, **call.arguments) for call in calls)


def _sample(tool: Tool) -> Call:
    """Some call that the tool's schema allows."""
    properties, required = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
    return Call(name=tool.name, arguments={name: _value(properties.get(name, {})) for name in required})


def _value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: _value(schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
    return {"integer": 1, "number": 1.0, "boolean": True, "array": []}.get(schema.get("type", ""), "text")


def _read(name: str, folder: Path) -> _Set:
    answers = folder / "possible_answer" / f"BFCL_v4_{name}.json"
    needs_answers = not name.endswith("relevance")
    if needs_answers and not answers.is_file():
        raise ConfigurationError(f"bfcl/{name} needs {answers}, which is not there; the data folder is not complete.")
    used = [_questions(folder, name), *([answers] if needs_answers else [])]
    variables = name in ("simple_java", "simple_javascript")
    rows, faults = _bfcl_rows.read(used[0], answers if needs_answers else None, variables=variables)
    unique: dict[str, Row] = {}
    for row in rows:
        key = content_hash([row.question_digest, [[t.name, dict(t.parameters)] for t in row.tools]])
        if key in unique:
            faults.append(LeftOut(where=used[0].name, key="id", value=row.id, why=f"the same as {unique[key].id}"))
        unique.setdefault(key, row)
    splits: dict[str, list[Row]] = {"train": [], "heldout": []}
    for row in unique.values():
        splits["heldout" if int(row.question_digest, 16) % 4 == 0 else "train"].append(row)
    digest = sha256(b"".join(path.read_bytes() for path in used)).hexdigest()
    return _Set(rows={split: tuple(each) for split, each in splits.items()}, left_out=tuple(faults), digest=digest)


def _questions(folder: Path, name: str) -> Path:
    return folder / f"BFCL_v4_{name}.json"


@lru_cache(maxsize=1)
def _installed() -> Path | None:
    """The data folder of the installed package, which is not imported."""
    spec = find_spec("bfcl_eval")
    return next((Path(place) / "data" for place in spec.submodule_search_locations or ()), None) if spec else None


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("bfcl-eval")
    except PackageNotFoundError:
        return ""
