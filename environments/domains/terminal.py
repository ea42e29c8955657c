"""Work in a shell on files: find, fix, build, configure, convert; scored by the artifacts it leaves, nothing else.

    episode   a sandbox with the task's files; tools run, read, write, edit, finish (`environments/workbench.py`)
    verify    each artifact is compared outside of a sandbox; scripts, archives and repositories are run or read in a
              new sandbox, on inputs the agent never saw

Outcome: the share of artifacts that are right; nothing is paid when a file that must stay as it is was changed.
Process: turns beyond the task's budget, valid actions, whether the last action failed; paid only on a pass.
Templates are in `_terminal_*.py`; add one by writing a function that draws a `Problem`.
"""

import glob
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from pydantic import Field

from assay.errors import EnvironmentAuthorError, SandboxError
from assay.ids import content_hash, derive_seed
from assay.records import Cause, Judging, Message, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments import artifacts
from environments.base import Card, Domain, Episode, Outcome, ResourceProfile, Solutions
from environments.domains import (
    _terminal_build,
    _terminal_config,
    _terminal_data,
    _terminal_find,
    _terminal_git,
    _terminal_logs,
)
from environments.domains._common import task_id, task_rng
from environments.domains._terminal_compare import KINDS
from environments.domains._terminal_place import LIMITS, held, kept, opened
from environments.domains._terminal_problem import Check, Problem, Template, lines, text
from environments.rubric import Rubric
from environments.sandboxes.base import Backend
from environments.tools import say_call
from environments.workbench import TOOLS, Workbench

TEMPLATES: tuple[Template, ...] = (
    *_terminal_find.TEMPLATES,
    *_terminal_data.TEMPLATES,
    *_terminal_logs.TEMPLATES,
    *_terminal_build.TEMPLATES,
    *_terminal_config.TEMPLATES,
    *_terminal_git.TEMPLATES,
)
LEVELS = (1, 2, 3)
_BUDGET = {1: 6, 2: 8, 3: 10}  # turns that cost nothing; twice as many are allowed
_RUBRIC = Rubric(outcome={"artifacts": 1.0}, process={"steps": 1.0, "valid_actions": 1.0, "recovery": 1.0})
_HIDDEN_KEYS = ("checks", "num_already_right", "oracle", "wrong", "equivalent")
_PUBLIC_KEYS = ("folder", "files", "kept", "setup", "collected", "programs", "budget", "has_state_hash")
_COLOURS = (
    "amber", "azure", "beige", "black", "blue", "bronze", "brown", "coral", "crimson", "cyan", "ebony", "gold",
    "green", "grey", "indigo", "ivory", "jade", "khaki", "lilac", "lime", "maroon", "navy", "ochre", "olive",
    "orange", "pearl", "pink", "plum", "purple", "red", "rose", "ruby", "sable", "silver", "teal", "umber", "white",
)  # fmt: skip
_ANIMALS = (
    "badger", "bison", "camel", "cobra", "crane", "crow", "deer", "dingo", "eagle", "falcon", "ferret", "finch",
    "gecko", "goose", "hare", "heron", "hyena", "ibis", "jackal", "koala", "lemur", "lynx", "magpie", "marten",
    "mole", "moose", "newt", "otter", "owl", "panda", "puma", "quail", "raven", "seal", "shrew", "stork", "swan",
    "tapir", "tiger", "toad", "vole", "walrus", "weasel", "wolf", "wren", "yak", "zebra",
)  # fmt: skip


class Terminal(Domain):
    """Shell work; scored by the artifacts it leaves."""

    id: str = "terminal"
    version: str = "1"

    class Config(PluginConfig):
        level: int = Field(0, ge=0, le=3, description="Difficulty of every task; 0 mixes 1 to 3")
        max_new_tokens: int = Field(1024, ge=64, le=16_384)

    def __init__(self, config: Config) -> None:
        self.config = config

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        chosen, level = _place(split, index, seed)
        level = self.config.level or level
        rng = task_rng(self.id, split, index, seed)
        problem = _drawn(chosen, rng, level, split)
        return self._task(task_id(self.id, split, index), split, level, chosen, problem, _folder(split, index, seed))

    def defective_tasks(self, seed: int) -> Sequence[TaskSpec]:
        """A check that holds before anything is done, one of another file than is asked for, a random expectation."""
        rng = task_rng(self.id, "train", -1, seed)
        sound = _note(rng)
        given = next(iter(sound.files.items()))
        idle = [text(*given)]
        elsewhere = [{**check, "path": "elsewhere.txt"} for check in sound.checks]
        random = [lines("out.txt", [rng.getrandbits(40)])]
        spoilt: dict[str, Sequence[Check]] = {"idle": idle, "elsewhere": elsewhere, "random": random}
        chosen = Template(id="defect", programs=("bash",), make=lambda rng, level: sound)
        return [
            self._task(task_id(self.id, "defect", number), "train", 1, chosen, sound, f"broken-{name}", checks=checks)
            for number, (name, checks) in enumerate(spoilt.items())
        ]

    def card(self) -> Card:
        return Card(
            summary=f"Shell work on files in {len(TEMPLATES)} kinds: find, convert, fix, build, configure, pack, git",
            value="Gets things done with the usual programs of a Linux shell and leaves exactly what was asked for",
            kind="shell",
            source=Source(name="assay", licence="Apache-2.0", version=self.version),
            levels=LEVELS,
            profile=ResourceProfile(
                memory_bytes=LIMITS.memory_bytes, expected_s=1.5, num_sandboxes=2, context_tokens=8192
            ),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        """See `base.Domain`. To the template's own scripts come ones that every template has: the oracle's work moved,
        cut short or added to, and the oracle's work as a script file, or after a look around."""
        if "oracle" not in task.hidden:
            raise EnvironmentAuthorError(f"{task.id}: hidden has no 'oracle'; add the commands that solve the task.")
        folder, hidden = task.public["folder"], task.hidden
        oracle, last = hidden["oracle"], _finish(task)
        moved = [_run(folder, f"{oracle}\n{spoil}") for spoil in _spoils(hidden["checks"])]
        own = [(_run(folder, command), last) for command in hidden["wrong"]]
        spoilt = [(command, last) for command in moved]
        script = say_call("write", path=f"{folder}.sh", text=f"cd {folder}\n{oracle}\n")
        as_file = (script, say_call("run", command=f"bash {folder}.sh && rm {folder}.sh"), last)
        looked = (say_call("run", command=f"ls -la {folder}"), _run(folder, oracle), last)
        others = [(_run(folder, command), last) for command in hidden["equivalent"]]
        if last != say_call("finish"):
            spoilt.append((_run(folder, oracle), say_call("finish", answer="unknown")))
        return Solutions(
            oracle=(_run(folder, oracle), last),
            noop=(say_call("finish"),),
            wrong=(*own, *spoilt),
            equivalent=(*others, as_file, looked),
            ladder=tuple(spoilt[:1]),
        )

    def check(self, task: TaskSpec) -> list[str]:
        found = [f"hidden lacks {name!r}" for name in _HIDDEN_KEYS if name not in task.hidden]
        found += [f"public lacks {name!r}" for name in _PUBLIC_KEYS if name not in task.public]
        if found:
            return found
        asked = "\n".join(message.content for message in task.prompt)
        checks = task.hidden["checks"]
        if not checks:
            found.append("there are no checks: anything would pass")
        found += [f"unknown kind of check {check['kind']!r}" for check in checks if check["kind"] not in KINDS]
        for path in [*(check["path"] for check in checks), task.public["folder"]]:
            if path not in asked:
                found.append(f"{path!r} is checked, but the prompt does not name it")
        if len(self.solutions(task).oracle) > task.public["budget"]:
            found.append("the oracle takes more turns than the budget")
        return found

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return _Bench(task, await opened(task, sandboxes), task.public["collected"])

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        if lacking := [name for name in _HIDDEN_KEYS if name not in task.hidden]:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: hidden lacks {', '.join(lacking)}")
        if not task.hidden["checks"]:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: there are no checks, anything would pass")
        left = artifacts.read(outcome.submission)
        try:
            which = await held(task, left, sandboxes)
        except SandboxError as error:
            return Verdict.invalid(Cause.SANDBOX, str(error), judged="fresh_sandbox")
        return _graded(task, which, kept(task, left), outcome)

    def _task(
        self,
        name: str,
        split: Split,
        level: int,
        chosen: Template,
        problem: Problem,
        folder: str,
        *,
        checks: Sequence[Mapping[str, Any]] | None = None,
    ) -> TaskSpec:
        return TaskSpec(
            id=name,
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=level,
            template=f"{chosen.id}/{folder}",
            answer_digest=_answer(chosen, problem),
            prompt=_prompt(problem, folder),
            public=_public(problem, chosen, folder, level, checks or problem.checks),
            hidden=_hidden(problem, checks or problem.checks),
            max_turns=2 * _BUDGET[level],
            max_new_tokens=self.config.max_new_tokens,
            tools=TOOLS,
        )


class _Bench(Workbench):
    """Without a digest where programs write times into the folder."""

    async def state_hash(self) -> str:
        return await super().state_hash() if self.task.public["has_state_hash"] else ""


@lru_cache(maxsize=64)
def _order(split: Split, seed: int, cycle: int) -> tuple[tuple[Template, int], ...]:
    """Every template at every level, in the order in which a run meets them."""
    every = [(template, level) for level in LEVELS for template in TEMPLATES]
    Random(derive_seed("terminal", "order", split, seed, cycle)).shuffle(every)
    return tuple(every)


def _place(split: Split, index: int, seed: int) -> tuple[Template, int]:
    cycle, place = divmod(index, len(TEMPLATES) * len(LEVELS))
    return _order(split, seed, cycle)[place]


def _drawn(chosen: Template, rng: Random, level: int, split: Split) -> Problem:
    """A problem whose answer belongs to the split."""
    for _ in range(200):
        problem = chosen.make(rng, level)
        if _on_side(_answer(chosen, problem), split):
            return problem
    raise EnvironmentAuthorError(f"terminal {chosen.id}: 200 draws gave no answer of {split}; draw from more answers.")


def _folder(split: Split, index: int, seed: int) -> str:
    """Two words and the index: no folder, hence no prompt, is in both splits, and none occurs twice in a run."""
    rng = task_rng("terminal/folder", split, index, seed)
    while True:
        words = f"{rng.choice(_COLOURS)}-{rng.choice(_ANIMALS)}"
        if _on_side(content_hash(words), split):
            return f"{words}-{index}"


def _on_side(digest: str, split: Split) -> bool:
    """One answer in four, by its hash, is held out."""
    return (int(digest[:8], 16) % 4 == 0) == (split == "heldout")


def _answer(chosen: Template, problem: Problem) -> str:
    return content_hash([chosen.id, list(problem.checks)])


def _note(rng: Random) -> Problem:
    """A small sound problem that the defective tasks spoil."""
    number = rng.randrange(1000, 9999)
    return Problem(
        asks="Copy the number in `in.txt` to the new file `out.txt`.",
        files={"in.txt": f"{number}\n"},
        checks=[lines("out.txt", [number])],
        oracle="cp in.txt out.txt",
        wrong=["echo 1 > out.txt"],
        equivalent=["cat in.txt > out.txt"],
    )


def _prompt(problem: Problem, folder: str) -> tuple[Message, ...]:
    system = "You work in a Linux shell without network. Leave exactly what is asked for, then call finish."
    kept = f"\nDo not change {', '.join(f'`{path}`' for path in problem.kept)}." if problem.kept else ""
    where = f"The folder `{folder}` in the current directory holds the work; paths are relative to that folder."
    user = f"{where}\n\n{problem.asks.strip()}{kept}"
    return (Message(role="system", content=system), Message(role="user", content=user))


def _public(
    problem: Problem, chosen: Template, folder: str, level: int, checks: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    paths = [check["path"] for check in checks if check["path"]]
    patterns = [*(glob.escape(path) for path in [*paths, *problem.kept]), *problem.collected]
    return {
        "folder": folder,
        "files": dict(problem.files),
        "kept": list(problem.kept),
        "setup": problem.setup,
        "collected": sorted({f"{folder}/{pattern}" for pattern in patterns}),
        "programs": list(chosen.programs),
        "budget": _BUDGET[level],
        "has_state_hash": problem.has_state_hash,
    }


def _hidden(problem: Problem, checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "checks": [dict(check) for check in checks],
        "num_already_right": problem.num_already_right,
        "oracle": problem.oracle,
        "wrong": list(problem.wrong),
        "equivalent": list(problem.equivalent),
    }


def _run(folder: str, command: str) -> str:
    return say_call("run", command=f"cd {folder}\n{command}")


def _finish(task: TaskSpec) -> str:
    answer = next((check["expected"] for check in task.hidden["checks"] if check["kind"] == "answer"), None)
    return say_call("finish") if answer is None else say_call("finish", answer=answer)


def _spoils(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commands that undo the oracle's work on the last artifact: moved away, its last line cut off, a line added."""
    last = next((check for check in reversed(checks) if check["path"]), None)
    if last is None:
        return []
    path, kind = last["path"], last["kind"]
    cut, added = f"sed -i '$d' {path}", f"echo 7x >> {path}"
    return [f"mv {path} {path}.new", *{"run": [], "ini": [added]}.get(kind, [cut, added])]


def _graded(task: TaskSpec, which: Sequence[bool], is_kept: bool, outcome: Outcome) -> Verdict:
    base = task.hidden["num_already_right"]
    passed = all(which) and is_kept
    gained = max(0, sum(which) - base) / max(1, len(which) - base)
    metrics = outcome.metrics
    values = {
        "artifacts": 1.0 if passed else gained,
        "steps": _steps(metrics.get("num_turns", 0.0), task.public["budget"], task.max_turns),
        "valid_actions": metrics.get("valid_actions", 0.0),
        "recovery": metrics.get("recovery", 0.0),
    }
    runs = any(check["kind"] == "run" for check in task.hidden["checks"])
    judged: Judging = "fresh_sandbox" if runs else "out_of_process"
    return _RUBRIC.score(values, passed=passed, judged=judged, gates={"kept": is_kept})


def _steps(num_turns: float, budget: int, most: int) -> float:
    """1 within the budget, then falling to 0.5 for all turns that are allowed."""
    return 1.0 - 0.5 * min(1.0, max(0.0, num_turns - budget) / max(1, most - budget))
