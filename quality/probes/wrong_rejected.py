"""Is the verifier strict enough? Plausible failures must not pass."""

from assay.records import Finding
from quality.probes.base import Bench, Probe, Result, rejected


class WrongRejected(Probe):
    """FOUND when a known-wrong submission passes; UNKNOWN when the domain names none."""

    id = "wrong_rejected"
    version = "1"
    level = 2

    async def look(self, bench: Bench) -> Result:
        wrong = bench.domain.solutions(bench.task).wrong
        if not wrong:
            return Result(
                finding=Finding.UNKNOWN,
                summary=f"{bench.task.domain}.solutions names no wrong submission; give at least one",
            )
        return rejected([await bench.submit(f"wrong {i}", text) for i, text in enumerate(wrong)], "wrong submissions")
