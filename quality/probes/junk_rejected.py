"""Does the verifier hold against nonsense? Odd input must be judged, without breaking anything, and must not pass."""

import contextlib

from assay.errors import EnvironmentAuthorError
from environments.base import Script
from quality.probes.base import Bench, Probe, Result, rejected

JUNK = {
    "empty": "",
    "whitespace": " \n\t ",
    "unicode": "\u202e\u0000é漢字🦆\ufeff\ud7ff",
    "long": "lorem ipsum " * 2000,
}
SEARCHED = 32


class JunkRejected(Probe):
    """FOUND when nonsense, or the answer to another task, passes or breaks the verifier."""

    id = "junk_rejected"
    version = "1"
    level = 2

    async def look(self, bench: Bench) -> Result:
        oracle = bench.domain.solutions(bench.task).oracle
        junk: dict[str, Script] = {name: (text,) for name, text in JUNK.items() if (text,) != oracle}
        other = _another(bench)
        if other is not None:
            junk["another task's answer"] = other
        return rejected([await bench.play(name, script) for name, script in junk.items()], "junk")


def _another(bench: Bench) -> Script | None:
    """The oracle of a task of the same domain with another answer and template, or None where there is hardly any."""
    there = bench.domain.num_tasks("train")
    for index in range(SEARCHED if there is None else min(SEARCHED, there)):
        other = bench.domain.make_task("train", index, bench.seed)
        if other.answer_digest != bench.task.answer_digest and other.template != bench.task.template:
            # A foreign task may come without a reference.
            with contextlib.suppress(EnvironmentAuthorError):
                return bench.domain.solutions(other).oracle
    return None
