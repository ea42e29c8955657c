"""Is the verifier lenient enough? Other right answers must pass."""

from quality.probes.base import Bench, Probe, Result, accepted


class EquivalentAccepted(Probe):
    """FOUND when another right answer is rejected.

    Where the domain names none, the oracle with blank lines around it stands in: a policy is free to write those.
    """

    id = "equivalent_accepted"
    version = "1"
    level = 2

    async def look(self, bench: Bench) -> Result:
        solutions = bench.domain.solutions(bench.task)
        others = solutions.equivalent or (f"\n{solutions.oracle}\n\n",)
        return accepted([await bench.submit(f"equivalent {i}", o) for i, o in enumerate(others)], "equivalents")
