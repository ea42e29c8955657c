"""The SWE-bench family: issues of real repositories, repaired in a sandbox, judged by the project's own tests.

    build_domain("swe/mine", {"path": "mine.jsonl", "repos": {"org/name": "/clones/name"}})

Rows as in SWE-bench (Verified, Gym) and SWE-smith; trees come from a person's own clones. A repository that needs
packages gets them from the options `packages` (a folder for sys.path) or `images`; what cannot be had is left out.
The tests import the agent's code, so rewards are labelled `in_process`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from assay.errors import ConfigurationError, EnvironmentAuthorError, SandboxError
from assay.ids import content_hash
from assay.records import Cause, Source, Split, TaskSpec, Verdict
from assay.registry import PluginConfig
from environments import artifacts
from environments.base import Card, Domain, Episode, LeftOut, Outcome, ResourceProfile, Solutions
from environments.formats import _swe_run as run
from environments.formats._faults import Unusable, invalid, unsupported
from environments.formats._rewards import BadReward
from environments.formats._sets import Kin, NamedTasks, by_split, did, nothing, prompt, splits
from environments.formats._swe_repo import check_clone, check_commit, needed_packages, touched
from environments.formats._swe_rows import Row, read_rows
from environments.sandboxes.base import Backend
from environments.tools import say_call
from environments.workbench import RUN, TOOLS


class Swe:
    """The format."""

    id: ClassVar[str] = "swe"

    class Config(PluginConfig):
        path: str = Field("", description="JSONL or Parquet file of instances")
        repos: dict[str, str] = Field({}, description="Git clone or bare repository by repository name")
        packages: dict[str, str] = Field({}, description="Folder of installed Python packages by repository name")
        images: dict[str, str] = Field({}, description="Root file system (tar or folder) by repository name")
        heldout_share: float = Field(0.2, ge=0, le=1)
        split_by: Literal["instance", "repo"] = Field("instance", description="What is held out as a whole")
        max_turns: int = Field(40, ge=1, le=1000)
        max_new_tokens: int = Field(2048, ge=8, le=1 << 20, description="Of one turn")
        command_s: float = Field(120, gt=0, le=86_400, description="Most time of one command of the agent")
        tests_s: float = Field(600, gt=0, le=86_400, description="Most time of the hidden tests")
        max_memory_mb: int = Field(4096, ge=64)
        disk_mb: int = Field(512, ge=16, description="What a sandbox may write")
        max_submission_mb: int = Field(4, ge=1, le=256, description="What may be collected of an episode")
        licence: str = Field("", description="Licence of the set, for the catalogue")

    def __init__(self, config: Config) -> None:
        self.config = config

    def missing(self) -> str:
        return ""

    def names(self) -> Sequence[str]:
        return ()

    def domain(self, name: str) -> Domain:
        return SweSet(name, self.config)


class SweSet(NamedTasks):
    """One file of instances."""

    version: str = "1"
    Config = Swe.Config

    def __init__(self, name: str, config: Swe.Config) -> None:
        self.id = f"{Swe.id}/{name}"
        self.config = config
        if not config.path:
            raise ConfigurationError(f"The option `path` of {self.id!r} is empty; give a JSONL or Parquet file.")
        self._rows, self._left_out = _read_set(config)
        split_of = splits(
            [_kin(row, by_repo=config.split_by == "repo") for row in self._rows.values()],
            heldout_share=config.heldout_share,
        )
        self._names = by_split(split_of)

    def make_task(self, split: Split, index: int, seed: int) -> TaskSpec:
        return self._task(self._rows[self.name_at(split, index)], split)

    def card(self) -> Card:
        repos = {row.repo for row in self._rows.values()}
        return Card(
            summary=f"{len(self._rows)} issues of {len(repos)} repositories, judged by the projects' tests",
            value="Repairs real projects from a description of what is wrong",
            kind="code",
            source=Source(
                name=self.id,
                licence=self.config.licence or "unknown",
                version=self.version,
                digest=content_hash([_hidden(row) for row in self._rows.values()]),
            ),
            levels=tuple(sorted({row.level for row in self._rows.values()}) or [1]),
            profile=ResourceProfile(
                memory_bytes=1 << 30, expected_s=60, num_sandboxes=2, context_tokens=self.config.max_turns * 1024
            ),
        )

    def solutions(self, task: TaskSpec) -> Solutions:
        row = self._row(task)
        try:
            whole, half = run.repair(row, self._place(row).clone), run.partial_repair(row, self._place(row).clone)
        except Unusable as error:
            raise EnvironmentAuthorError(f"{task.id}: {error.key}: {error}") from error
        return Solutions(
            oracle=(did(whole),),
            noop=(nothing(),),
            wrong=tuple((did(each),) for each in run.tampering(row)),
            equivalent=(
                (say_call(RUN.name, command="pwd; ls -la"), did(whole)),
                (f"I repair it and then finish.\n{say_call(RUN.name, command=whole)}", nothing()),
            ),
            ladder=((did(half),),),
        )

    def check(self, task: TaskSpec) -> list[str]:
        row = self._rows.get(str(task.public.get("instance_id")))
        if row is None or dict(task.hidden) != _hidden(row):
            return [f"the set has no such instance {task.public.get('instance_id')!r}, or another version of it"]
        shown = "\n".join(message.content for message in task.prompt)
        return ["the prompt contains the patch"] if row.patch.strip() in shown else []

    async def open(self, task: TaskSpec, sandboxes: Backend) -> Episode:
        row = self._row(task)
        try:
            return await run.open_bench(row, task, sandboxes, self._place(row))
        except Unusable as error:
            raise EnvironmentAuthorError(f"{task.id}: {error.key}: {error}") from error

    async def verify(self, task: TaskSpec, outcome: Outcome, sandboxes: Backend) -> Verdict:
        row = self._rows.get(str(task.public.get("instance_id")))
        if row is None or dict(task.hidden) != _hidden(row):
            return Verdict.invalid(
                Cause.ENVIRONMENT, f"{task.id}: the set has no such instance, or another version of it"
            )
        left = artifacts.read(outcome.submission)
        try:
            done, report = await run.run_tests(row, left, sandboxes, self._place(row))
            return await asyncio.to_thread(run.judged, row, done, report, left)
        except SandboxError as error:
            return Verdict.invalid(Cause.SANDBOX, str(error), judged="in_process")
        except Unusable as error:
            return Verdict.invalid(Cause.ENVIRONMENT, f"{task.id}: {error.key}: {error}", judged="in_process")
        except BadReward as error:
            return Verdict.invalid(Cause.VERIFIER, str(error), judged="in_process")

    def _row(self, task: TaskSpec) -> Row:
        row = self._rows.get(str(task.public.get("instance_id")))
        if row is None:
            raise EnvironmentAuthorError(f"{task.id}: {self.id} has no such instance; was the set changed?")
        return row

    def _place(self, row: Row) -> run.Place:
        return run.Place(
            clone=self.config.repos[row.repo],
            packages=self.config.packages.get(row.repo, ""),
            image=self.config.images.get(row.repo, ""),
            memory_bytes=self.config.max_memory_mb << 20,
            disk_bytes=self.config.disk_mb << 20,
            command_s=self.config.command_s,
            tests_s=self.config.tests_s,
            submission_bytes=self.config.max_submission_mb << 20,
        )

    def _task(self, row: Row, split: Split) -> TaskSpec:
        name = row.instance_id
        return TaskSpec(
            id=f"{self.id}/{name}",
            domain=self.id,
            environment_version=self.version,
            split=split,
            level=row.level,
            template=row.repo if self.config.split_by == "repo" else name,
            answer_digest=_answer(row),
            prompt=prompt(f"{_ASKED}\n\n{row.problem_statement}", run.WORK_DIR),
            public={"instance_id": name, "repo": row.repo, "base_commit": row.base_commit, "kind": row.kind},
            hidden=_hidden(row),
            max_turns=self.config.max_turns,
            max_new_tokens=self.config.max_new_tokens,
            tools=TOOLS,
            source=Source(
                name=name,
                licence=self.config.licence or "unknown",
                version=row.base_commit,
                digest=content_hash(_hidden(row)),
            ),
        )


_ASKED = "The folder holds a project. Change its source so that what is described here is right; tests will check it."


def _read_set(config: Swe.Config) -> tuple[dict[str, Row], list[LeftOut]]:
    rows: dict[str, Row] = {}
    left_out: list[LeftOut] = []
    clones: dict[str, Unusable | None] = {}
    for where, value in read_rows(Path(config.path)):
        try:
            if isinstance(value, Unusable):
                raise value
            row = _checked(value)
            where = f"{where} ({row.instance_id})"
            if row.instance_id in rows:
                raise Unusable("this id was there before", key="instance_id", value=row.instance_id)
            _check_possible(row, config, clones)
            rows[row.instance_id] = row
        except Unusable as error:
            left_out.append(error.left_out(where))
    return rows, left_out


def _checked(value: Any) -> Row:
    if not isinstance(value, Mapping):
        raise Unusable("an instance is an object", key="line", value=value)
    try:
        return Row.model_validate(dict(value))
    except ValidationError as error:
        raise invalid(error) from error


def _check_possible(row: Row, config: Swe.Config, clones: dict[str, Unusable | None]) -> None:
    """Raises Unusable for a patch that is none, ids that are not pytest's, or an environment that cannot be had."""
    touched(row.patch, "patch")
    if row.test_patch.strip():
        touched(row.test_patch, "test_patch")
    for each in row.ids:
        path = each.split("::")[0]
        if "::" not in each or not path.endswith(".py") or path.startswith(("/", "-")) or ".." in path.split("/"):
            raise unsupported("only pytest's ids (path.py::name) can be run here", "FAIL_TO_PASS, PASS_TO_PASS", each)
    if row.repo not in config.repos:
        raise unsupported("the option `repos` names no clone of it", "repo", row.repo)
    if row.repo not in clones:
        clones[row.repo] = _problem_with(row.repo, config.repos[row.repo])
    if (problem := clones[row.repo]) is not None:
        raise problem
    check_commit(config.repos[row.repo], row.base_commit)
    if row.repo not in config.images and row.repo not in config.packages:
        needed = needed_packages(config.repos[row.repo], row.base_commit)
        if needed:
            raise unsupported(
                "it needs packages; give them in the option `packages` or `images`",
                f"dependencies of {row.repo}",
                needed,
            )


def _problem_with(repo: str, path: str) -> Unusable | None:
    try:
        check_clone(repo, path)
    except Unusable as error:
        return error
    return None


def _kin(row: Row, *, by_repo: bool) -> Kin:
    name = row.instance_id
    return Kin(
        name=name, prompt=row.problem_statement.strip(), answer=_answer(row), family=row.repo if by_repo else name
    )


def _answer(row: Row) -> str:
    """What is right: the patch, or the files that SWE-smith broke, whose right contents many rows share."""
    paths = [row.repo, row.base_commit, *touched(row.patch, "patch")]
    return content_hash(row.patch if row.kind == "repair" else paths)


def _hidden(row: Row) -> dict[str, Any]:
    return {
        "patch": row.patch,
        "fail_to_pass": list(row.fail_to_pass),
        **({"pass_to_pass": list(row.pass_to_pass)} if row.pass_to_pass else {}),
        **({"test_patch": row.test_patch} if row.test_patch else {}),
    }
