"""Small projects of several files, worked on in a sandbox: repair them, upgrade a library, or write their tests.

    bug      level 1: one mistake in a named file; 2: somewhere; 3: two, in different files, or a broken agreement
    upgrade  a vendored library comes in version 2, with a changelog; as many changes of its API as the level says
    tests    tests for a module, worth the hidden mutants they notice, if they pass on right code

    episode  read, edit, run the visible tests, finish      (a sandbox with the project)
    verify   hidden cases on the files that were left       (a new sandbox; results are compared outside of it)

Outcome: the share of what was wrong before and is right now, so leaving the project as it is earns nothing. Process:
few turns, valid actions, recovery; paid only on a pass.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Literal

from pydantic import Field

from assay.errors import EnvironmentAuthorError, SandboxError
from assay.ids import derive_seed
from assay.records import Cause, Judging, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments import artifacts
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Solutions
from environments.domains import _project_problem as problems
from environments.domains._common import task_id, task_rng
from environments.domains._project_checks import LIMITS, killed, repaired, uses
from environments.domains._project_kind import Kind
from environments.domains._project_problem import Problem
from environments.domains._project_rewrite import rewritten
from environments.domains._project_run import Result, failures
from environments.domains._project_scripts import repair_solutions, tests_solutions
from environments.domains._project_visible import examples, project_files, question
from environments.rubric import Rubric
from environments.sandboxes.base import Backend, SandboxSpec
from environments.workbench import TOOLS, Workbench

TaskKind = Literal["bug", "upgrade", "tests"]
_PLANS: tuple[tuple[TaskKind, int], ...] = (
    *(("bug", 1), ("bug", 2), ("bug", 3), ("upgrade", 1), ("tests", 1), ("bug", 1)),
    *(("bug", 2), ("upgrade", 2), ("bug", 3), ("bug", 2), ("tests", 2), ("bug", 3)),
    *(("bug", 1), ("upgrade", 3), ("bug", 2), ("tests", 3)),
)
_HIDDEN_KEYS = {
    "bug": ("cases", "num_already_right", "solution", "partly"),
    "upgrade": ("cases", "num_already_right", "solution", "partly"),
    "tests": ("cases", "mutants"),
}
_JUDGED: Mapping[str, Judging] = {"bug": "out_of_process", "upgrade": "out_of_process", "tests": "in_process"}
_RUBRIC = Rubric(outcome={"outcome": 1.0}, process={"steps": 1.0, "valid_actions": 1.0, "recovery": 1.0})


class ProjectRepair(Domain):
    """Work on a small project; scored by what neither the policy nor its sandbox ever held."""

    id: str = "project_repair"
    version: str = "1"

    class Config(PluginConfig):
        max_turns: int = Field(20, ge=4, le=100)
        free_turns: int = Field(8, ge=1, le=100, description="Turns that do not lower the reward")
        max_new_tokens: int = Field(1024, ge=64, le=16384)
        timeout_s: float = Field(30.0, gt=0, le=300, description="Wall time for all cases, or for one run of tests")
        task_kinds: list[TaskKind] = Field(["bug", "upgrade", "tests"], min_length=1)
        levels: list[Literal[1, 2, 3]] = Field([1, 2, 3], min_length=1)

    def __init__(self, config: Config) -> None:
        self.config = config
        self._plans = [plan for plan in _PLANS if plan[0] in config.task_kinds and plan[1] in config.levels]

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        task_kind, level = self._plans[index % len(self._plans)]
        kind = _kind_at(split, index, seed)
        rng = task_rng(self.id, split, index, seed)
        variant = rng.choice(kind.variants(split))
        problem = problems.write_problem(kind, task_kind, level, variant, rng)
        return self._task(task_id(self.id, split, index), split, kind, task_kind, level, variant, problem)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """Cases the broken project already passes, a random reference, the repair in the prompt, a mutant that is
        none."""
        kind, rng = problems.KINDS[0], task_rng(self.id, "train", -1, seed)
        variant = kind.variants("train")[0]
        bug = problems.write_problem(kind, "bug", 1, variant, rng)
        tests = problems.write_problem(kind, "tests", 1, variant, rng)

        def made(number: int, task_kind: TaskKind, problem: Problem, **more: Any) -> TaskSpec:
            name = task_id(self.id, "defect", number)
            return self._task(name, "train", kind, task_kind, 1, variant, problem, defect=f"defect {number}", **more)

        return [
            made(0, "bug", bug, hidden=_blind(bug)),
            made(1, "bug", bug, hidden=_random_reference(bug, rng)),
            made(2, "bug", bug, hint=_repaired_text(bug)),
            made(3, "tests", tests, hidden={"mutants": [tests.right[tests.where]]}),
        ]

    def card(self) -> Card:
        return Card(
            summary="Small Python projects of several files: repair them, upgrade a library, write their tests",
            value="Finds and corrects faults across the files of a project, with a shell, an editor and tests",
            kind="code",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted({level for _, level in self._plans})),
            profile=ResourceProfile(
                memory_bytes=LIMITS.memory_bytes, expected_s=2.0, num_sandboxes=2, context_tokens=12_000
            ),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        if lacking := _lacking(task):
            raise EnvironmentAuthorError(f"{task.id}: hidden has no {lacking[0]!r}; add the reference answer.")
        return tests_solutions(task) if task.public["task_kind"] == "tests" else repair_solutions(task)

    def check(self, task: TaskSpec) -> list[str]:
        public = ("task_kind", "package", "files", "examples")
        found = [f"public lacks {name!r}" for name in public if name not in task.public]
        if found or (lacking := _lacking(task)):
            return found or [f"hidden lacks {name!r}" for name in lacking]
        asked = "\n".join(message.content for message in task.prompt)
        if not task.hidden["cases"]:
            found.append("there are no hidden cases: anything would pass")
        shown = [[example["target"], example["args"]] for example in task.public["examples"]]
        if any([case["target"], case["args"]] in shown for case in task.hidden["cases"]):
            found.append("a hidden case is also a visible example")
        if task.public["package"] not in asked:
            found.append("the prompt does not name the package")
        return found + (_tests_faults(task) if task.public["task_kind"] == "tests" else _repair_faults(task, asked))

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        collected = "tests/*.py" if task.public["task_kind"] == "tests" else f"{task.public['package']}/*.py"
        spec = SandboxSpec(
            files=dict(task.public["files"]),
            limits=LIMITS,
            # A file that is edited within a second and keeps its size would be run from its old bytecode.
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            labels={"task": task.id, "use": "episode"},
        )
        return await Workbench.open(task, sandboxes, spec, [collected])

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if lacking := _lacking(task):
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden lacks {', '.join(lacking)}")
        if not task.hidden["cases"]:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: there are no hidden cases, anything would pass")
        judge = self._verify_tests if task.public["task_kind"] == "tests" else self._verify_repair
        try:
            return await judge(task, outcome, sandboxes)
        except SandboxError as error:
            return Verdict.invalid(Cause.SANDBOX, str(error), judged=_JUDGED[task.public["task_kind"]])

    async def _verify_repair(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        package, cases, base = task.public["package"], task.hidden["cases"], task.hidden["num_already_right"]
        vendored = {path: text for path, text in task.public["files"].items() if path.startswith("vendor/")}
        left = artifacts.read(outcome.submission)
        num_right = await repaired(sandboxes, left, package, vendored, cases, self.config.timeout_s)
        gates = {"uses_library": uses(left, "vendor")} if task.public["task_kind"] == "upgrade" else {}
        passed = num_right == len(cases) and all(gates.values())
        gained = 1.0 if passed else max(0.0, (num_right - base) / max(1, len(cases) - base))
        return self._scored(task, outcome, gained, passed, f"{num_right} of {len(cases)} cases, {base} before", gates)

    async def _verify_tests(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        files, where, mutants = task.public["files"], task.public["module"], task.hidden["mutants"]
        left = artifacts.read(outcome.submission)
        right = _sources(files)
        wrong = [{**right, where: text} for text in mutants]
        other = await asyncio.to_thread(rewritten, right)
        seen = await killed(sandboxes, left, [right, other], wrong, self.config.timeout_s)
        passed = seen.sound and seen.num_killed == len(mutants)
        note = f"{seen.num_killed} of {len(mutants)} mutants noticed"
        return self._scored(
            task, outcome, seen.num_killed / len(mutants), passed, note, {"passes_on_right_code": seen.sound}
        )

    def _scored(
        self,
        task: TaskSpec,
        outcome: Outcome,
        value: float,
        passed: bool,
        note: str,
        gates: Mapping[str, bool] | None = None,
    ) -> Verdict:
        process = {name: outcome.metrics.get(name, 0.0) for name in ("valid_actions", "recovery")}
        num_turns = outcome.metrics.get("num_turns", float(task.max_turns))
        spent = (num_turns - self.config.free_turns) / max(1, task.max_turns - self.config.free_turns)
        values = {"outcome": value, "steps": 1.0 - 0.5 * min(1.0, max(0.0, spent)), **process}
        return _RUBRIC.score(
            values, passed=passed, judged=_JUDGED[task.public["task_kind"]], gates=gates, notes={"outcome": note}
        )

    def _task(
        self,
        name: str,
        split: Split,
        kind: Kind,
        task_kind: TaskKind,
        level: int,
        variant: Mapping[str, Any],
        problem: Problem,
        *,
        hidden: Mapping[str, Any] | None = None,
        hint: str = "",
        defect: str = "",
    ) -> TaskSpec:
        tests = f"tests/test_{problem.where.split('/')[-1]}"
        system, user = question(kind, task_kind, level, problem, tests)
        features = ",".join(f"{key}={value}" for key, value in variant.items())
        where = {"module": problem.where, "tests": tests} if task_kind == "tests" else {}
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template="/".join(filter(None, [defect, task_kind, kind.id, features, "+".join(problem.mistakes)])),
            answer_digest=problems.answer_digest(kind.id, task_kind, tuple(variant.items())),
            prompt=(Message(role="system", content=system), Message(role="user", content=user + hint)),
            public={
                "task_kind": task_kind,
                "package": problem.values["pkg"],
                "files": project_files(kind, task_kind, problem),
                "examples": examples(problem),
                **where,
            },
            hidden={**_hidden(task_kind, problem), **(hidden or {})},
            max_turns=self.config.max_turns,
            max_new_tokens=self.config.max_new_tokens,
            tools=TOOLS,
        )


@lru_cache(maxsize=64)
def _order(split: Split, seed: int, rounds: int) -> tuple[int, ...]:
    places = list(range(len(problems.KINDS)))
    Random(derive_seed("project_repair", "kinds", split, seed, rounds)).shuffle(places)
    return tuple(places)


def _kind_at(split: Split, index: int, seed: int) -> Kind:
    """Every kind comes once before any comes again."""
    rounds, place = divmod(index, len(problems.KINDS))
    return problems.KINDS[_order(split, seed, rounds)[place]]


def _lacking(task: TaskSpec) -> list[str]:
    return [name for name in _HIDDEN_KEYS[task.public["task_kind"]] if name not in task.hidden]


def _sources(files: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if path.endswith(".py") and not path.startswith("tests/")}


def _own(problem: Problem, files: Mapping[str, str]) -> dict[str, str]:
    """Of some files, those in the project's package."""
    return {path: text for path, text in files.items() if path.startswith(f"{problem.values['pkg']}/")}


def _hidden(task_kind: TaskKind, problem: Problem) -> dict[str, Any]:
    right = _own(problem, problem.right)
    cases = [dict(case) for case in problem.hidden]
    told: dict[str, Any] = {"cases": cases, "mistakes": [*problem.mistakes, problem.where]}
    if task_kind == "tests":
        return {**told, "mutants": list(problem.mutants)}
    partly = _own(problem, problem.partly)
    return {
        **told,
        "num_already_right": problem.num_already_right,
        "solution": {path: text for path, text in right.items() if problem.broken.get(path) != text},
        "partly": {path: text for path, text in partly.items() if problem.broken.get(path) != text},
    }


def _repair_faults(task: TaskSpec, asked: str) -> list[str]:
    files, solution = task.public["files"], task.hidden["solution"]
    found = []
    if not solution or all(files.get(path) == text for path, text in solution.items()):
        found.append("the solution changes nothing")
    if any(text.strip() and text.strip() in asked for text in solution.values()):
        found.append("the prompt contains the solution")
    if any(text == shown for text in solution.values() for shown in files.values()):
        found.append("the sandbox contains the solution")
    return found


def _tests_faults(task: TaskSpec) -> list[str]:
    right = task.public["files"].get(task.public["module"])
    return ["a mutant is the right code"] if right in task.hidden["mutants"] or not task.hidden["mutants"] else []


def _blind(problem: Problem) -> dict[str, Any]:
    """Hidden cases that cannot tell the broken project from the right one."""
    calls = [(case["target"], case["args"]) for case in problem.hidden]
    right: list[Result] = [("value", case["expected"]) for case in problem.hidden]
    wrong = failures(problem.broken, calls, right) or []
    cases = [dict(case) for number, case in enumerate(problem.hidden) if number not in wrong]
    return {"cases": cases, "num_already_right": len(cases)}


def _random_reference(problem: Problem, rng: Random) -> dict[str, Any]:
    """A reference that draws at random without a seed, so its own expected values rarely come again."""
    app = f"{problem.values['pkg']}/app.py"
    names = sorted({case["target"].split(":")[1] for case in problem.hidden})
    code = "import random\n" + "".join(f"\n\ndef {name}(*args):\n    return random.randrange(4)\n" for name in names)
    cases = [{**case, "expected": rng.randrange(4)} for case in problem.hidden]
    return {"cases": cases, "num_already_right": 0, "solution": {app: code}}


def _repaired_text(problem: Problem) -> str:
    return f"\nThe repaired file:\n{problem.right[problem.where]}"
