"""Is the verifier lenient enough? Other right answers must pass."""

from pydantic import Field

from assay.registry import PluginConfig
from quality.probes.base import Bench, Probe, Result, accepted, some


class EquivalentAccepted(Probe):
    """FOUND when another right answer is rejected.

    Tries at most `most` of those the domain names, drawn by the seed. Where it names none, the oracle with blank
    lines around it stands in: a policy is free to write those.
    """

    id = "equivalent_accepted"
    version = "1"
    level = 2

    class Config(PluginConfig):
        most: int = Field(default=1, ge=1, le=1000, description="Equivalent submissions tried per task")

    async def look(self, bench: Bench) -> Result:
        solutions = bench.domain.solutions(bench.task)
        others = solutions.equivalent or (tuple(f"\n{text}\n\n" for text in solutions.oracle),)
        drawn = some(others, self.config.most, bench.seed)
        tried = [await bench.play(f"equivalent {i}", others[i]) for i in drawn]
        return accepted(tried, f"{len(drawn)} of {len(others)} equivalents")
