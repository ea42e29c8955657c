"""Small functions with one bug; the policy writes the corrected function; up to two turns, hidden tests.

    turn 1   function, purpose, one failing example -> code -> visible examples run in the episode's sandbox
    turn 2   what failed comes back as the observation -> corrected code
    verify   hidden cases run in a fresh sandbox; results cross as data and are compared outside of it

Outcome: the share of hidden cases repaired (those the broken code already got right earn nothing, so returning it
unchanged is worth 0). Process: few steps, valid actions, recovery; paid only on a pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError, SandboxError
from assay.records import Cause, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments.base import Card, Domain, Episode, Outcome, Reply, ResourceProfile, Solutions
from environments.domains import _code_repair_task as problems
from environments.domains._code_repair_task import Case, Problem
from environments.domains._common import MAX_SUBMISSION_CHARS, fenced_block, task_id, task_rng
from environments.rubric import score
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec
from environments.verifying.judge import CaseResult, clipped, run_cases, same

_LIMITS = Limits(memory_bytes=256 << 20, disk_bytes=8 << 20, max_processes=8, cpu_s=15, max_file_bytes=1 << 20)
_HIDDEN_KEYS = ("cases", "num_already_right", "solution")
_NO_CODE = "No Python code found. Answer with the corrected function in a ```python block."


class CodeRepair(Domain):
    """Repair a function; scored by hidden cases that neither the policy nor its sandbox ever held."""

    id: str = "code_repair"
    version: str = "1"

    class Config(PluginConfig):
        max_turns: int = Field(2, ge=1, le=8, description="Attempts; what failed comes back between them")
        max_new_tokens: int = Field(64, ge=16, le=4096)
        timeout_s: float = Field(10.0, gt=0, le=120, description="Wall time for all cases of one attempt")

    def __init__(self, config: Config) -> None:
        self.config = config

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        places = problems.order(split, seed)
        instance = problems.instances(split)[places[index % len(places)]]
        problem = problems.write_problem(instance, task_rng(self.id, split, index, seed))
        return self._task(task_id(self.id, split, index), split, instance.family.level, instance.name, problem)

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """Hidden cases the broken function already passes, a random reference, and a prompt that holds the answer."""
        rng = task_rng(self.id, "train", -1, seed)
        instance = next(i for i in problems.instances("train") if i.name.endswith("/boundary"))
        problem = problems.write_problem(instance, rng)
        weak = self._task(task_id(self.id, "defect", 0), "train", 1, "defect/weak", problem, hidden=_passing(problem))
        flaky = self._task(task_id(self.id, "defect", 1), "train", 1, "defect/flaky", _random_reference(seed))
        leaking = self._task(task_id(self.id, "defect", 2), "train", 1, "defect/leak", problem, hint=problem.solution)
        return [weak, flaky, leaking]

    def card(self) -> Card:
        return Card(
            summary="Small Python functions with one bug each, repaired from a failing example",
            value="Finds and corrects a fault in a function it is shown",
            kind="code",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=tuple(sorted({family.level for family in problems.FAMILIES})),
            profile=ResourceProfile(memory_bytes=_LIMITS.memory_bytes, expected_s=0.2, num_sandboxes=2),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        if "solution" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'solution'; add the reference answer.")
        solution, entry = task.hidden["solution"], task.public["entry"]
        wrong = [*task.hidden.get("mutants", ()), *_cheats(entry, task.public["examples"])]
        return Solutions.of_answers(
            oracle=fence(solution),
            noop=fence(task.public["code"]),
            wrong=(*map(fence, wrong), "I have corrected the function.", fence("")),
            equivalent=(
                fence(task.hidden.get("other", solution)),
                f"The function had a bug.\n\n{fence(solution)}\n\nIt is correct now.",
                f"```\n{solution}```",
                solution,
                fence(f'"""Corrected."""\nimport math\n\n\n{solution}\nprint({entry})\n'),
            ),
        )

    def check(self, task: TaskSpec) -> list[str]:
        found = [f"hidden lacks {name!r}" for name in _HIDDEN_KEYS if name not in task.hidden]
        found += [f"public lacks {name!r}" for name in ("code", "entry", "examples") if name not in task.public]
        if found:
            return found
        asked = "\n".join(message.content for message in task.prompt)
        if _holds(asked, task.hidden["solution"]) or _holds(task.public["code"], task.hidden["solution"]):
            found.append("the prompt or the public part contains the solution")
        if task.public["entry"] not in asked or task.public["code"].strip() not in asked:
            found.append(f"the prompt does not show the function {task.public['entry']!r}")
        if not task.hidden["cases"]:
            found.append("there are no hidden cases: anything would pass")
        shown = [example["args"] for example in task.public["examples"]]
        if any(case["args"] in shown for case in task.hidden["cases"]):
            found.append("a hidden case is also a visible example")
        return found

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        sandbox = await sandboxes.create(SandboxSpec(limits=_LIMITS, labels={"task": task.id, "use": "episode"}))
        return _Repair(task, sandbox, self.config.timeout_s)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if lacking := [name for name in _HIDDEN_KEYS if name not in task.hidden]:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden lacks {', '.join(lacking)}")
        if not task.hidden["cases"]:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: there are no hidden cases, anything would pass")
        code, cases = outcome.submission, task.hidden["cases"]
        if not code.strip() or len(code) > MAX_SUBMISSION_CHARS:
            return self._graded(task, 0, outcome)
        try:
            results = await self._run_hidden(task, code, cases, sandboxes)
        except SandboxError as error:
            return Verdict.invalid(Cause.SANDBOX, str(error), judged="out_of_process")
        num_right = sum(_right(result, case) for result, case in zip(results, cases, strict=True))
        return self._graded(task, num_right, outcome)

    async def _run_hidden(
        self, task: TaskSpec, code: str, cases: Sequence[Mapping[str, Any]], sandboxes: Backend
    ) -> list[CaseResult]:
        sandbox = await sandboxes.create(SandboxSpec(limits=_LIMITS, labels={"task": task.id, "use": "verify"}))
        try:
            inputs = [case["args"] for case in cases]
            return await run_cases(sandbox, code, task.public["entry"], inputs, timeout_s=self.config.timeout_s)
        finally:
            await sandbox.destroy()

    def _graded(self, task: TaskSpec, num_right: int, outcome: Outcome) -> Verdict:
        num_cases, base = len(task.hidden["cases"]), task.hidden["num_already_right"]
        passed = num_right == num_cases
        gained = 1.0 if passed else max(0.0, (num_right - base) / max(1, num_cases - base))
        process = {name: outcome.metrics.get(name, 0.0) for name in ("steps", "valid_actions", "recovery")}
        return score(gained, process, passed=passed, judged="out_of_process")

    def _task(
        self,
        name: str,
        split: Split,
        level: int,
        template: str,
        problem: Problem,
        *,
        hidden: Mapping[str, Any] | None = None,
        hint: str = "",
    ) -> TaskSpec:
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=template,
            answer_digest=problem.answer,
            prompt=_prompt(problem, hint),
            public={
                "entry": problem.entry,
                "code": problem.broken,
                "purpose": problem.does,
                "examples": [_as_data(case) for case in problem.visible],
            },
            hidden=_hidden(problem) | dict(hidden or {}),
            max_turns=self.config.max_turns,
            max_new_tokens=self.config.max_new_tokens,
        )


class _Repair:
    """An episode: every attempt is tried on the visible examples, and what fails is told."""

    def __init__(self, task: TaskSpec, sandbox: Sandbox, timeout_s: float) -> None:
        self._task, self._sandbox, self._timeout_s = task, sandbox, timeout_s
        self._code, self._turns, self._invalid, self._failing = "", 0, 0, False

    async def reply(self, completion: str) -> Reply:
        self._turns += 1
        last = self._turns >= self._task.max_turns
        code = parse_code(completion)
        if code is None:
            self._invalid, self._failing = self._invalid + 1, True
            return Reply(action="", observation=_NO_CODE, done=last, valid_action=False)
        self._code = code
        observation = await self._try(code)
        self._failing = observation != ""
        return Reply(action=code, observation=observation or "All examples pass.", done=last or not self._failing)

    async def _try(self, code: str) -> str:
        """What the visible examples say, empty when all pass."""
        entry, examples = self._task.public["entry"], self._task.public["examples"]
        inputs = [example["args"] for example in examples]
        results = await run_cases(self._sandbox, code, entry, inputs, timeout_s=self._timeout_s)
        for result, example in zip(results, examples, strict=True):
            if not _right(result, example):
                said = f"{_call(entry, example['args'])} {result.shown()}, expected {clipped(example['expected'])}."
                return f"{said} Correct the function."
        return ""

    async def outcome(self) -> Outcome:
        metrics = _metrics(num_turns=self._turns, num_invalid=self._invalid, failing=self._failing)
        return Outcome(submission=self._code, metrics=metrics)

    async def state_hash(self) -> str:
        return await self._sandbox.state_hash()

    async def close(self) -> None:
        await self._sandbox.destroy()


def parse_code(completion: str) -> str | None:
    """The code of the first fenced block (a cut-off one too), or the whole text when it is bare code; else None."""
    block = fenced_block(completion, ("python", "py", "python3"))
    if block is None and completion.lstrip().startswith(("def ", "import ", "from ")):
        block = completion
    return block if block and block.strip() and len(block) <= MAX_SUBMISSION_CHARS else None


def fence(code: str) -> str:
    """Code as the policy should answer it."""
    return f"```python\n{code.strip()}\n```"


def _metrics(*, num_turns: int, num_invalid: int, failing: bool) -> dict[str, float]:
    """Figures of an episode; `steps`, `valid_actions` and `recovery` (0..1) feed the rubric."""
    turns = max(1, num_turns)
    return {
        "num_turns": float(num_turns),
        "num_invalid_actions": float(num_invalid),
        "steps": 1.0 / turns,
        "valid_actions": 1.0 - num_invalid / turns,
        "recovery": 0.0 if failing else 1.0,
    }


def _right(result: CaseResult, case: Mapping[str, Any]) -> bool:
    return result.error is None and same(result.value, case["expected"])


def _prompt(problem: Problem, hint: str) -> tuple[Message, ...]:
    example = problem.visible[0]
    question = (
        f"This function should {problem.does}, but it has a bug.\n{fence(problem.broken)}\n"
        f"{_call(problem.entry, example.args)} {problem.shown}, expected {example.expected!r}.\n"
        f"{hint}Write the corrected function."
    )
    return (Message(role="system", content="You correct Python functions."), Message(role="user", content=question))


def _call(entry: str, args: Sequence[Any]) -> str:
    return f"{entry}({', '.join(clipped(arg) for arg in args)})"


def _as_data(case: Case) -> dict[str, Any]:
    return {"args": case.args, "expected": case.expected}


def _hidden(problem: Problem) -> dict[str, Any]:
    return {
        "cases": [_as_data(case) for case in problem.hidden],
        "num_already_right": problem.num_already_right,
        "solution": problem.solution,
        "other": problem.other,
        "mutants": list(problem.mutants),
    }


def _holds(shown: str, code: str) -> bool:
    """Whether the code stands there as whole lines; a broken line may well begin like the right one."""
    return f"\n{code.strip()}\n" in f"\n{shown}\n"


def _passing(problem: Problem) -> dict[str, Any]:
    """Hidden cases that cannot tell the broken function from the right one."""
    blind = [case for case in problem.hidden if problems.agrees(problem.broken, problem.entry, case)]
    return {"cases": [_as_data(case) for case in blind], "num_already_right": len(blind)}


def _random_reference(seed: int) -> Problem:
    """A problem whose reference draws at random without a seed, so its own expected values rarely come again."""
    rng = task_rng("code_repair", "train", -2, seed)
    cases = [Case(args=[items], expected=rng.choice(items)) for items in (rng.sample(range(20), 4) for _ in range(8))]
    code = "import random\n\n\ndef pick(items):\n    return random.choice(items)\n"
    return Problem(
        entry="pick",
        does="return one of the items",
        broken="def pick(items):\n    return items\n",
        solution=code,
        other=code,
        answer=problems.answer_digest(code),
        mutants=(),
        visible=tuple(cases[:3]),
        hidden=tuple(cases[3:]),
        shown=f"returned {cases[0].args[0]!r}",
        num_already_right=0,
    )


def _cheats(entry: str, examples: Sequence[Mapping[str, Any]]) -> list[str]:
    """Answers that try to pass without repairing: known examples, an equal-to-everything result, an early exit."""
    known = {repr(example["args"]): example["expected"] for example in examples}
    return [
        f"def {entry}(*args):\n    return {known!r}.get(repr(list(args)))",
        f"class Yes:\n    def __eq__(self, other):\n        return True\n\n\ndef {entry}(*args):\n    return Yes()",
        f"import os\n\n\ndef {entry}(*args):\n    os._exit(0)",
        f"def {entry}(*args):\n    return None",
        f"def {entry}(*args):\n    while True:\n        pass",
        "def other():\n    return 1",
    ]
