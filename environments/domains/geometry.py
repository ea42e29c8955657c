"""Parts and scenes built through a modelling API from an instruction; rebuilt and compared with a reference.

    instruction -> tool calls (box, difference, circular_pattern, place ...) -> operations, the model as data
    verify         operations --replay--> solids --against the reference--> overlap, surface, bounds, relations

The submission is the list of operations, so verification needs no sandbox and can be repeated. Outcome: likeness in
shape, names and relations, dense; passing needs all of them within tolerance. Process: few turns, valid actions,
recovery; paid only on a pass. Needs the extra `geometry` (manifold3d, trimesh, pillow). A modeller with exact curved
faces, such as CadQuery, would take another `Model` of the same operations and figures of its solids.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from pydantic import Field

from assay.errors import ConfigurationError, EnvironmentAuthorError
from assay.ids import canonical_json, content_hash
from assay.records import Cause, Image, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, Reply, ResourceProfile, Script, Solutions
from environments.domains import _geometry_measure, _geometry_task
from environments.domains._common import task_id
from environments.domains._geometry_family import Operations, Problem
from environments.domains._geometry_judging import Judged, Target, judge
from environments.domains._geometry_kernel import BadOperation
from environments.domains._geometry_model import Model
from environments.domains._geometry_render import render
from environments.domains._geometry_tools import CONVENTIONS, FINISH, LIST, MEASURE, RENDER, TOOLS, digest_text
from environments.rubric import Rubric
from environments.sandboxes.base import Backend
from environments.tools import BadCall, Call, read_calls, say_call

MAX_SUBMISSION_CHARS = 400_000
VERIFY_S = 120.0
_PACKAGES = {"manifold3d": "manifold3d", "trimesh": "trimesh", "PIL": "pillow"}
_PROCESS = {"steps": 1.0, "valid_actions": 1.0, "recovery": 1.0}
_CALLS_A_TURN = 8
_SHOWN_CHARS = 6_000
_SOMETHING_ELSE = ({"name": "sphere", "arguments": {"name": "something", "radius": 5}},)
_QUERIES = (LIST.name, MEASURE.name, RENDER.name)


class Geometry(Domain):
    """Model what the instruction says; scored by comparing solids, never by comparing the way they were made."""

    id: str = "geometry"
    version: str = "1"

    class Config(PluginConfig):
        levels: tuple[int, ...] = Field((1, 2, 1, 3), min_length=1, description="Levels (1..3) that tasks take in turn")
        extra_turns: int = Field(6, ge=1, le=40, description="Turns beyond one for each call of the reference")
        max_new_tokens: int = Field(1024, ge=64, le=8192)

    def __init__(self, config: Config) -> None:
        """Raises ConfigurationError without the extra `geometry`, EnvironmentAuthorError for an unknown level."""
        self.config = config
        if missing := [package for module, package in _PACKAGES.items() if find_spec(module) is None]:
            raise ConfigurationError(
                f"The domain 'geometry' needs {', '.join(missing)}, not installed here; "
                "install the extra: pip install 'assay[geometry]'."
            )
        if unknown := set(config.levels) - {1, 2, 3}:
            raise EnvironmentAuthorError(f"geometry: levels {sorted(unknown)} do not exist; use 1, 2 or 3.")

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        level = self.config.levels[index % len(self.config.levels)]
        drawn = _geometry_task.draw(split, index, seed, level)
        name = task_id(self.id, split, index)
        return self._task(name, split, level, drawn.template, drawn.digest, drawn.problem)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """No reference, one that changes nothing, one that cannot be built, and a relation that nothing could keep."""
        drawn = _geometry_task.draw_family("pocket_boss", "train", seed)
        calls = _listed(drawn.problem.calls)
        still = [{"name": "move", "arguments": {"name": "plate", "by": [0, 0, 0]}}]
        made = [
            self._task(task_id(self.id, "defect", i), "train", 2, drawn.template, drawn.digest, drawn.problem)
            for i in range(4)
        ]
        hidden, target = dict(made[0].hidden), dict(made[0].hidden["target"])
        stray = [{"kind": "parent", "a": "nothing", "b": None}]
        return [
            replace(made[0], hidden={"known": hidden["known"]}),
            replace(
                made[1],
                public={**made[1].public, "given": calls},
                hidden={"target": {**target, "operations": still}, "known": {**hidden["known"], "oracle": still}},
            ),
            replace(made[2], hidden={**hidden, "target": {**target, "operations": calls[1:]}}),
            replace(made[3], hidden={**hidden, "target": {**target, "relations": stray}}),
        ]

    def card(self) -> Card:
        return Card(
            summary="Parts and scenes built through a modelling API from an instruction with exact sizes",
            value="Turns a description of a part or scene into the calls of a modeller that build exactly it",
            kind="modelling",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted(set(self.config.levels))),
            images=True,
            profile=ResourceProfile(memory_bytes=512 << 20, expected_s=0.5, context_tokens=8192),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        known = task.hidden.get("known")
        if not known:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'known' scripts; add the reference and mistakes.")
        given, calls = tuple(task.public["given"]), tuple(known["oracle"])
        derived = _geometry_task.Known(given, calls)
        wrong = [*known["wrong"], *derived.exploits(), _SOMETHING_ELSE]
        return Solutions(
            oracle=script(calls),
            noop=(say_call(FINISH.name),),
            wrong=tuple(map(script, wrong)),
            equivalent=tuple(map(script, [*known["equivalent"], *derived.other_ways()])),
            ladder=tuple(map(script, derived.worsened())),
        )

    def check(self, task: TaskSpec) -> list[str]:
        target = _target(task)
        if target is None:
            return ["hidden lacks a 'target' with the reference's operations, or public lacks 'given'"]
        found = []
        if fault := _geometry_task.unbuildable((*target.given, *target.reference)):
            found.append(f"the reference cannot be built: {fault}")
        if not task.hidden.get("known"):
            found.append("hidden lacks 'known' scripts")
        if canonical_json(list(target.reference)) in "\n".join(message.content for message in task.prompt):
            found.append("the prompt contains the reference")
        return found

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return await asyncio.to_thread(_Modelling, task)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        target = _target(task)
        if target is None:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden has no 'target' to compare with")
        try:
            # A thread: the kernel's calls are short, for every solid is capped, so others get their turn in between.
            judged = await asyncio.wait_for(asyncio.to_thread(_judged, target, outcome.submission), VERIFY_S)
        except BadOperation as fault:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: the reference cannot be built: {fault}")
        except TimeoutError:
            return Verdict.invalid(Cause.DEADLINE, f"{task.id}: not verified within {VERIFY_S:.0f} s")
        process = {name: min(1.0, max(0.0, outcome.metrics.get(name, 0.0))) for name in _PROCESS}
        return Rubric(outcome=target.terms, process=_PROCESS).score(
            {**judged.values, **process},
            passed=judged.passed,
            judged="out_of_process",
            gates=judged.gates,
            notes=judged.notes,
        )

    def _task(self, name: str, split: Split, level: int, template: str, digest: str, problem: Problem) -> TaskSpec:
        par = len(problem.calls) + 1
        target = {
            "operations": _listed(problem.calls),
            "relations": _listed(problem.relations),
            "free": problem.free,
            "faces": problem.faces,
        }
        known = {
            "oracle": _listed(problem.calls),
            "wrong": [_listed(each) for each in problem.wrong],
            "equivalent": [_listed(each) for each in problem.equivalent],
        }
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=template,
            answer_digest=digest,
            prompt=(Message(role="system", content=CONVENTIONS), Message(role="user", content=problem.asks)),
            public={"given": _listed(problem.given), "par_turns": par},
            hidden={"target": target, "known": known},
            max_turns=par + self.config.extra_turns,
            max_new_tokens=self.config.max_new_tokens,
            tools=TOOLS,
        )


class _Modelling:
    """The episode: a live model, the operations that made it, and how the agent went about it."""

    def __init__(self, task: TaskSpec) -> None:
        """Raises EnvironmentAuthorError when what is given cannot be built."""
        self.task = task
        try:
            self._model = Model(task.public["given"])
        except BadOperation as fault:
            raise EnvironmentAuthorError(f"{task.id}: the given model cannot be built: {fault}") from fault
        self._operations: list[dict[str, Any]] = []
        self._turns = self._invalid = 0
        self._failed = False

    async def reply(self, completion: str) -> Reply:
        self._turns += 1
        last = self._turns >= self.task.max_turns
        try:
            calls = read_calls(completion, self.task.tools)
        except BadCall as fault:
            self._invalid, self._failed = self._invalid + 1, True
            return Reply(action="", observation=str(fault)[:_SHOWN_CHARS], done=last, valid_action=False)
        said, images, ended = await asyncio.to_thread(self._carry_out, calls)
        action = canonical_json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
        observation = "\n".join(said)[:_SHOWN_CHARS]
        return Reply(action=action, observation=observation, done=ended or last, images=images)

    async def outcome(self) -> Outcome:
        return Outcome(submission=digest_text(self._operations), metrics=self._metrics())

    async def state_hash(self) -> str:
        return content_hash(digest_text(self._operations))

    async def close(self) -> None:
        self._model = Model()

    def _carry_out(self, calls: Sequence[Call]) -> tuple[list[str], tuple[Image, ...], bool]:
        """What the calls said and showed, and whether one of them ended the work. The first that fails stops them."""
        said: list[str] = []
        images: list[Image] = []
        for call in calls:
            if call.name == FINISH.name:
                return said, tuple(images), True
            try:
                said.append(self._do(call, images))
            except BadOperation as fault:
                self._failed = True
                return [*said, f"error: {call.name}: {fault}"], tuple(images), False
            self._failed = False
        return said, tuple(images), False

    def _do(self, call: Call, images: list[Image]) -> str:
        if call.name not in _QUERIES:
            operation = {"name": call.name, "arguments": dict(call.arguments)}
            said = self._model.apply(operation)
            self._operations.append(operation)
            return said
        if call.name == RENDER.name:
            images.append(render(self._model.result().bodies, **call.arguments))
            return "rendered"
        return self._listing() if call.name == LIST.name else self._measured(call.arguments["name"])

    def _listing(self) -> str:
        nodes = [f"{name} (under {node.parent})" if node.parent else name for name, node in self._model.nodes.items()]
        return f"solids: {', '.join(self._model.solids) or 'none'}; nodes: {', '.join(nodes) or 'none'}"

    def _measured(self, name: str) -> str:
        bodies = {**self._model.solids, **self._model.result().bodies}
        if name not in bodies:
            raise BadOperation(f"there is no solid or node with a body called {name!r}")
        return _geometry_measure.told(name, bodies[name])

    def _metrics(self) -> dict[str, float]:
        """`steps` is 1 up to a turn for each call of the reference, and falls to 0.5 for all that are allowed."""
        turns, par = max(1, self._turns), self.task.public["par_turns"]
        return {
            "num_turns": float(self._turns),
            "num_operations": float(len(self._operations)),
            "num_invalid_actions": float(self._invalid),
            "steps": 1.0 - 0.5 * max(0, turns - par) / max(1, self.task.max_turns - par),
            "valid_actions": 1.0 - self._invalid / turns,
            "recovery": 0.0 if self._failed else 1.0,
        }


def script(operations: Operations) -> Script:
    """Completions that carry the operations out, a few in each turn, and then finish."""
    said = [say_call(each["name"], **each["arguments"]) for each in operations]
    turns = ["\n".join(said[i : i + _CALLS_A_TURN]) for i in range(0, len(said), _CALLS_A_TURN)]
    return (*turns, say_call(FINISH.name))


def read_submission(text: str) -> list[Any] | None:
    """The operations that `digest_text` wrote, not yet checked one by one; None for anything else."""
    if len(text) > MAX_SUBMISSION_CHARS:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    operations = found.get("operations") if isinstance(found, dict) else None
    return operations if isinstance(operations, list) else None


def _judged(target: Target, submission: str) -> Judged:
    operations = read_submission(submission)
    return judge(target, [{"name": "unreadable"}] if operations is None else operations)


def _target(task: TaskSpec) -> Target | None:
    found = task.hidden.get("target")
    if not isinstance(found, Mapping) or not {"operations", "relations", "free", "faces"} <= set(found):
        return None
    if "given" not in task.public:
        return None
    return Target(
        given=task.public["given"],
        reference=found["operations"],
        relations=found["relations"],
        free=found["free"],
        faces=found["faces"],
    )


def _listed(operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: _plain(value) for key, value in each.items()} for each in operations]


def _plain(value: Any) -> Any:
    """As JSON gives it back: tuples as lists."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value
