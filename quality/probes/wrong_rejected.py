"""Is the verifier strict enough? Plausible failures must not pass."""

from pydantic import Field

from assay.records import Finding
from assay.registry import PluginConfig
from quality.probes.base import Bench, Probe, Result, rejected, some


class WrongRejected(Probe):
    """FOUND when a known-wrong submission passes; UNKNOWN when the domain names none.

    Tries at most `most` of them, drawn by the seed, so that over many tasks every kind is tried.
    """

    id = "wrong_rejected"
    version = "1"
    level = 2

    class Config(PluginConfig):
        most: int = Field(default=2, ge=1, le=1000, description="Wrong submissions tried per task")

    async def look(self, bench: Bench) -> Result:
        wrong = bench.domain.solutions(bench.task).wrong
        if not wrong:
            return Result(
                finding=Finding.UNKNOWN,
                summary=f"{bench.task.domain}.solutions names no wrong submission; give at least one",
            )
        drawn = some(wrong, self.config.most, bench.seed)
        tried = [await bench.play(f"wrong {i}", wrong[i]) for i in drawn]
        return rejected(tried, f"{len(drawn)} of {len(wrong)} wrong submissions")
