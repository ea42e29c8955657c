"""Does the task keep its domain's static contract? Runs nothing."""

from assay.records import Finding
from quality.probes.base import Bench, Probe, Result


class StaticContract(Probe):
    """FOUND when `domain.check` names a problem, or the task cannot be asked at all."""

    id = "static_contract"
    version = "1"
    level = 0

    async def look(self, bench: Bench) -> Result:
        task = bench.task
        problems = list(bench.domain.check(task))
        if not any(message.content.strip() for message in task.prompt):
            problems.append("the prompt is empty")
        if task.max_turns < 1 or task.max_new_tokens < 1:
            problems.append(f"max_turns {task.max_turns} and max_new_tokens {task.max_new_tokens} must be at least 1")
        if task.environment_version != bench.domain.version:
            problems.append(
                f"made by version {task.environment_version} of {task.domain}, which is now {bench.domain.version}"
            )
        return Result(
            finding=Finding.FOUND if problems else Finding.CLEAR,
            summary="; ".join(problems) or "contract kept",
            tried={"problems": problems},
        )
