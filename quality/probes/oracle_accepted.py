"""Can the task be solved? The oracle, played through a real episode, must pass."""

from quality.probes.base import Bench, Probe, Result, accepted


class OracleAccepted(Probe):
    """FOUND when the known solution is rejected: the task is unsolvable, or its verifier is broken."""

    id = "oracle_accepted"
    version = "1"
    level = 1

    async def look(self, bench: Bench) -> Result:
        oracle = bench.domain.solutions(bench.task).oracle
        return accepted([await bench.play("oracle", oracle)], "oracle")
