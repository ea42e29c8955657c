"""Is the verifier deterministic? The same submission must get the same verdict every time."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from assay.records import Finding
from assay.registry import PluginConfig
from quality.probes.base import Bench, Probe, Result, Tried


class RepetitionsAgree(Probe):
    """FOUND when oracle or no-op get differing verdicts over k runs each.

    A flake of rate f is missed with probability (1-f)^k + f^k per submission: k=3 misses half of f=0.2.
    """

    id = "repetitions_agree"
    level = 3

    class Config(PluginConfig):
        repetitions: int = Field(default=3, ge=1, le=100, description="Runs of each that must agree")

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        # Fewer runs are no proof where more are asked for.
        self.version = f"1.k{self.config.repetitions}"

    async def look(self, bench: Bench) -> Result:
        solutions = bench.domain.solutions(bench.task)
        runs: list[Tried] = []
        for number in range(self.config.repetitions):
            runs.append(await bench.play(f"oracle run {number}", solutions.oracle))
            runs.append(await bench.play(f"no-op run {number}", solutions.noop))
        split = [told for told in (_differing(runs[0::2]), _differing(runs[1::2])) if told]
        return Result(
            finding=Finding.FOUND if split else Finding.CLEAR,
            summary="; ".join(split) or f"{self.config.repetitions} runs of oracle and no-op agree",
            tried={"submissions": [run.as_json() for run in runs]},
        )


def _differing(runs: Sequence[Tried]) -> str:
    rewards = [run.verdict.reward for run in runs]
    if len({(run.verdict.passed, run.verdict.reward) for run in runs}) == 1:
        return ""
    return f"{runs[0].name.rsplit(' run', 1)[0]} got rewards {rewards}"
