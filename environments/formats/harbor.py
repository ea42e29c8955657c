"""Task directories of Harbor and Terminal-Bench; a folder of them is a domain: a shell, files, hidden tests.

    build_domain("harbor/my_tasks", {"path": "/sets/my_tasks"})
    my_tasks/
    ├── fix-build/   task.toml  instruction.md  environment/  tests/test.sh  solution/solve.sh
    └── old-one/     task.yaml  Dockerfile  run-tests.sh  tests/  solution.sh

Tasks run as they are where a sandbox can stand in for their image; what cannot be had is in `left_out` with the reason.
Tests may import what the agent left, so rewards are labelled `in_process`. docs/formats.md has the rules.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import ConfigurationError, EnvironmentAuthorError, SandboxError
from assay.ids import content_hash
from assay.records import Cause, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments import artifacts
from environments.base import Card, Domain, Episode, LeftOut, Outcome, ResourceProfile, Solutions
from environments.formats import _harbor_run as run
from environments.formats._faults import Unusable, unsupported
from environments.formats._folder import marks, total_digest
from environments.formats._harbor_cases import verify_cases
from environments.formats._harbor_read import Work, read_task
from environments.formats._rewards import BadReward
from environments.formats._sets import Kin, NamedTasks, by_split, did, nothing, prompt, splits
from environments.sandboxes.base import Backend
from environments.tools import say_call
from environments.workbench import RUN, TOOLS

_NAME = re.compile(r"[\w.+-]{1,120}")


class Harbor:
    """The format."""

    id: ClassVar[str] = "harbor"

    class Config(PluginConfig):
        path: str = Field("", description="Folder of task directories")
        heldout_share: float = Field(0.2, ge=0, le=1, description="Share of tasks that are held out")
        images: dict[str, str] = Field({}, description="Root file system (tar or folder) by task, where one is needed")
        stand_ins: bool = Field(True, description="Let commands stand in for installers that a task's tests call")
        max_turns: int = Field(30, ge=1, le=1000)
        max_new_tokens: int = Field(2048, ge=8, le=1 << 20, description="Of one turn")
        command_s: float = Field(120, gt=0, le=86_400, description="Most time of one command of the agent")
        max_memory_mb: int = Field(4096, ge=64, description="Tasks that ask for more are left out")
        disk_mb: int = Field(512, ge=16, description="What a sandbox may write")
        max_submission_mb: int = Field(4, ge=1, le=256, description="What may be collected of an episode")
        licence: str = Field("", description="Licence of the set, for the catalogue")
        value: str = Field("", description="What a policy can do that learnt it, for the catalogue")

    def __init__(self, config: Config) -> None:
        self.config = config

    def missing(self) -> str:
        return ""

    def names(self) -> Sequence[str]:
        return ()

    def domain(self, name: str) -> Domain:
        return HarborSet(name, self.config)


class HarborSet(NamedTasks):
    """One folder of tasks."""

    version: str = "1"
    Config = Harbor.Config

    def __init__(self, name: str, config: Harbor.Config) -> None:
        self.id = f"{Harbor.id}/{name}"
        self.config = config
        self._room = run.Room(
            memory_bytes=config.max_memory_mb << 20,
            disk_bytes=config.disk_mb << 20,
            command_s=config.command_s,
            submission_bytes=config.max_submission_mb << 20,
            stand_ins=config.stand_ins,
        )
        works, self._left_out = _read_set(_root(self.id, config), config)
        self._works = {work.folder.name: work for work in works}
        split_of = splits([_kin(work) for work in works], heldout_share=config.heldout_share)
        self._names = by_split(split_of)

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        return self._task(self._works[self.name_at(split, index)], split)

    def card(self) -> Card:
        levels = sorted({work.level for work in self._works.values()}) or [1]
        values = [work.assay.value for work in self._works.values() if work.assay.value]
        return Card(
            summary=f"{len(self._works)} tasks in a shell, each with tests of its own",
            value=self.config.value or next(iter(values), "") or "Does work in a terminal until its tests pass",
            kind="shell",
            source=Source(
                name=self.id,
                licence=self.config.licence or "unknown",
                version=self.version,
                digest=content_hash([_digest(work) for work in self._works.values()]),
            ),
            levels=tuple(levels),
            profile=ResourceProfile(
                memory_bytes=512 << 20, expected_s=30, num_sandboxes=2, context_tokens=self.config.max_turns * 1024
            ),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        work = self._work(task)
        solve = run.reference(work)
        return Solutions(
            oracle=(did(solve),),
            noop=(nothing(),),
            wrong=tuple((did(each),) for each in (*run.tampering(work), *map(run.script, work.wrong.values()))),
            equivalent=(
                (say_call(RUN.name, command="pwd; ls -la"), did(solve)),
                (f"I do it and then finish.\n{say_call(RUN.name, command=solve)}", nothing()),
                *((did(run.script(text)),) for text in work.equivalent.values()),
            ),
            ladder=((did(run.half_reference(work)),),),
        )

    def check(self, task: TaskSpec) -> list[str]:
        work = self._works.get(str(task.public.get("name")))
        if work is None:
            return [f"the set has no task {task.public.get('name')!r}"]
        if problem := _foreign(work, task):
            return [problem]
        shown = "\n".join(message.content for message in task.prompt)
        whole = work.solution[work.solver].source.read_text("utf-8", "replace").strip() if work.solver else ""
        return ["the prompt contains the solution"] if len(whole) > 40 and whole in shown else []

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        return await run.open_bench(self._work(task), task, sandboxes, self._room)

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        work = self._works.get(str(task.public.get("name")))
        problem = "the set has no such task" if work is None else _foreign(work, task)
        if work is None or problem:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {problem}")
        left = artifacts.read(outcome.submission)
        try:
            if work.cases:
                return await verify_cases(work, left, sandboxes)
            tested = await run.run_tests(work, left, sandboxes, self._room)
            return await asyncio.to_thread(run.judged, work, tested, left)
        except SandboxError as error:
            return Verdict.invalid(Cause.SANDBOX, str(error), judged="in_process")
        except Unusable as error:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {error.value}: {error}", judged="in_process")
        except BadReward as error:
            return Verdict.invalid(Cause.VERIFIER, str(error), judged="in_process")

    def _work(self, task: TaskSpec) -> Work:
        work = self._works.get(str(task.public.get("name")))
        if work is None:
            raise EnvironmentAuthorError(f"{task.id}: {self.id} has no such task; was the set changed?")
        return work

    def _task(self, work: Work, split: Split) -> TaskSpec:
        name = work.folder.name
        return TaskSpec(
            id=f"{self.id}/{name}",
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=work.level,
            template=name,
            answer_digest=_answer(work),
            prompt=prompt(work.instruction, work.work_dir),
            public=_public(work),
            hidden=_hidden(work),
            max_turns=self.config.max_turns,
            max_new_tokens=self.config.max_new_tokens,
            tools=TOOLS,
            agent_timeout_s=work.agent_timeout_s,
            source=Source(
                name=work.name, licence=self.config.licence or "unknown", version=work.version, digest=_digest(work)
            ),
        )


def _root(domain_id: str, config: Harbor.Config) -> Path:
    if not config.path or not Path(config.path).is_dir():
        raise ConfigurationError(
            f"The option `path` of {domain_id!r} is {config.path!r}; give the folder that holds the task directories."
        )
    return Path(config.path)


def _read_set(root: Path, config: Harbor.Config) -> tuple[list[Work], list[LeftOut]]:
    """Every task below the root, or the root itself when it is one."""
    single = any((root / name).exists() for name in ("task.toml", "task.yaml"))
    folders = [root] if single else sorted(each for each in root.iterdir() if not each.name.startswith("."))
    works: dict[str, Work] = {}
    left_out: list[LeftOut] = []
    for folder in folders:
        if not folder.is_dir() and not folder.is_symlink():
            continue
        try:
            work = _read_one(folder, config)
            if work.name in works:
                raise Unusable(f"{works[work.name].folder.name} has this name already", key="name", value=work.name)
            works[work.name] = work
        except Unusable as error:
            left_out.append(error.left_out(folder.name))
        except OSError as error:
            left_out.append(Unusable(f"cannot be read: {error.strerror}").left_out(folder.name))
    return list(works.values()), left_out


def _read_one(folder: Path, config: Harbor.Config) -> Work:
    if folder.is_symlink() or not _NAME.fullmatch(folder.name):
        raise Unusable("a task is a real folder named by letters, digits and ._+-", key="folder", value=folder.name)
    work = read_task(folder, config.images, stand_ins=config.stand_ins)
    if (work.memory_mb or 0) > config.max_memory_mb:
        allowed = f"the option `max_memory_mb` allows {config.max_memory_mb}"
        raise unsupported(allowed, "environment.memory_mb", work.memory_mb)
    return work


def _kin(work: Work) -> Kin:
    name = work.folder.name
    return Kin(name=name, prompt=work.instruction.strip(), answer=_answer(work), family=name, wanted=work.assay.split)


def _answer(work: Work) -> str:
    """Digest of the reference, or of the tests where there is none."""
    return total_digest(work.solution or work.tests)


def _digest(work: Work) -> str:
    return content_hash([work.instruction, _public(work), _hidden(work)])


def _public(work: Work) -> dict[str, Any]:
    return {
        "name": work.folder.name,
        "layout": work.layout,
        "image": work.base_image,
        "given": bool(work.image),
        "work_dir": work.work_dir,
        "env": dict(work.env),
        "files": marks(work.base),
        "shown": {inside: marks(files) for inside, files in work.shown.items()},
        "commands": list(work.commands),
        "artifacts": list(work.assay.artifacts),
    }


def _hidden(work: Work) -> dict[str, Any]:
    """What decides the reward; files by their fingerprints, each part only where there is one."""
    parts = {
        "tests": marks(work.tests),
        "cases": list(map(dict, work.cases)),
        "tests_env": dict(work.tests_env),
        "solution": marks(work.solution),
        "scripts": {**work.wrong, **work.equivalent},
    }
    return {name: part for name, part in parts.items() if part} | {
        "runner": work.runner,
        "tests_timeout_s": work.tests_timeout_s,
    }


def _foreign(work: Work, task: TaskSpec) -> str:
    """Why a task is not the one in the folder, empty when it is."""
    if dict(task.hidden) == _hidden(work) and dict(task.public) == _public(work):
        return ""
    if not (task.hidden.get("tests") or task.hidden.get("cases")):
        return "hidden has neither tests nor cases"
    return "the folder has changed since this task was made; make the tasks again"
