"""Is the task trivial? Doing nothing must not pass."""

from quality.probes.base import Bench, Probe, Result, rejected


class NoopRejected(Probe):
    """FOUND when a submission that does nothing passes."""

    id = "noop_rejected"
    version = "1"
    level = 1

    async def look(self, bench: Bench) -> Result:
        noop = bench.domain.solutions(bench.task).noop
        return rejected([await bench.play("no-op", noop)], "no-op")
