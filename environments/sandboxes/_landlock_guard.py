"""The process between Assay and one command under Landlock: the guard, with rules and a look at memory.

Stays outside of what it puts its command into, as root where Assay is root; so the command cannot reach it.
"""

import json
import sys
import time

from environments.sandboxes import _guard, _memory
from environments.sandboxes._landlock import Ruleset, filter_system_calls

_LOOK_S = 0.1


def main() -> None:
    """Entry of the process: `argv[2]` is JSON with `readable`, `writable`, `devices` and `memory_bytes`."""
    options = json.loads(sys.argv[2])
    rules = Ruleset(options["readable"], options["writable"], options["devices"])
    next_look = 0.0

    def confine() -> None:
        rules.apply()
        filter_system_calls()

    def exceeds(pid: int) -> bool:
        nonlocal next_look
        if time.monotonic() < next_look:
            return False
        next_look = time.monotonic() + _LOOK_S
        return _memory.exceeds(pid, options["memory_bytes"])

    _guard.main(confine, exceeds)
