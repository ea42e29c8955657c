"""Hidden cases of our own task directories: calls of what the agent wrote, compared outside of its process."""

from dataclasses import replace

from assay.records import RewardTerm, Verdict
from environments.artifacts import Artifacts
from environments.formats._bench import is_plain_path
from environments.formats._harbor_read import Work
from environments.rubric import score
from environments.sandboxes.base import Backend, SandboxSpec
from environments.verifying.judge import Call, Project, run_project

_WALL_S = 60.0


async def verify_cases(work: Work, left: Artifacts, sandboxes: Backend) -> Verdict:
    """Passed when every case gives what it should. Raises SandboxError."""
    cases, said = work.cases, work.assay.cases
    assert said is not None
    project = Project(files=_sources(work, left), module=said.module, entry=said.entry)
    sandbox = await sandboxes.create(SandboxSpec(labels={"use": "verify"}))
    try:
        calls = [Call(args=case["args"]) for case in cases]
        found = await run_project(sandbox, project, calls, timeout_s=_WALL_S)
    finally:
        await sandbox.destroy()
    right = [result.gives(case["expected"]) for result, case in zip(found, cases, strict=True)]
    verdict = score(float(all(right)), {}, passed=all(right), judged="out_of_process")
    share = RewardTerm(name="share_right", value=sum(right) / len(right), weight=0.0)
    return replace(verdict, terms=(*verdict.terms, share))


def _sources(work: Work, left: Artifacts) -> dict[str, str]:
    """The Python files of the work dir as the agent left it."""
    base = {
        path: found.source.read_text("utf-8", "replace")
        for path, found in work.base.items()
        if path.endswith(".py") and path not in left.removed
    }
    written = {path: left.text(path) or "" for path in left.files if path.endswith(".py") and is_plain_path(path)}
    return base | written
