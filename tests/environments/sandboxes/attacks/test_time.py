"""Time and output: computing, waiting and writing without end."""

from dataclasses import replace

import pytest

from environments.sandboxes.base import Limits, Sandbox, SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD

MIB = 1 << 20
ONE_SECOND = SandboxSpec(limits=replace(Limits(), cpu_s=1))

BURN = """
import resource, time
def spent(): return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
while spent() < 1.1: pass
answer = round(spent(), 1)
"""
EVADE = BURN.replace(
    "while spent() < 1.1: pass",
    """
for _ in range(4):
    child = os.fork()
    if child == 0:
        while spent() < 0.3: pass
        os._exit(0)
    os.waitpid(child, 0)
""",
)


async def test_one_process_does_not_burn_more_processor_time_than_allowed(backend: Bubblewrap) -> None:
    assert weaker(BURN, unlimited=["cpu"]) >= 1.1
    sandbox = await backend.create(ONE_SECOND)
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"{GUARD}{BURN}\nprint(answer)"], timeout_s=30)
    assert result.signal in (9, 24)
    await sandbox.destroy()


async def test_dividing_the_work_among_children_gains_no_more_than_the_limits_say(backend: Bubblewrap) -> None:
    """Each child stays below the limit. Where the sum is not limited the result says so, and the clock ends it."""
    assert weaker(EVADE, unlimited=["cpu"]) >= 1.1
    sandbox = await backend.create(ONE_SECOND)
    endless = EVADE.replace("range(4)", "range(1000)")
    summed = "cpu_s" in (await backend.probe()).limits_enforced
    program = ["python3", "-I", "-S", "-c", f"{GUARD}{endless}"]
    result = await sandbox.exec(program, timeout_s=30 if summed else 1.5)
    assert result.timed_out is not summed
    assert result.exit_code is None
    await sandbox.destroy()


FLOOD = "import sys\nfor _ in range(8): sys.stdout.write('x' * (1 << 20))\nprint()\nanswer = 8 << 20"


async def test_a_flood_of_output_is_cut_off(sandbox: Sandbox) -> None:
    assert weaker(FLOOD, afterwards="answer = len(stdout)") > 8 * MIB
    result = await sandbox.exec(["python3", "-I", "-S", "-c", GUARD + FLOOD], max_output=1000)
    assert (len(result.stdout), result.truncated, result.signal) == (1000, True, 9)


WAITING = {
    "sleeping": "import time\ntime.sleep(40)",
    "deaf": "import signal, time\nfor n in (1, 2, 3, 15, 24): signal.signal(n, signal.SIG_IGN)\ntime.sleep(40)",
    "mute": "import time\nos.close(1); os.close(2)\ntime.sleep(40)",
    "vfork": "import time\nif os.fork() == 0: os.setsid(); time.sleep(40)\nos.wait()",
    "looping": "while True: pass",
}
STILL_THERE = """
meanwhile = '''
import time
time.sleep(0.4)
running = process.poll() is None
process.kill()
'''
"""


@pytest.mark.parametrize("kind", WAITING)
async def test_no_command_lasts_longer_than_its_time_out(sandbox: Sandbox, kind: str) -> None:
    assert weaker(WAITING[kind], machine=STILL_THERE, afterwards="answer = running") is True
    result = await sandbox.exec(["python3", "-I", "-S", "-c", GUARD + WAITING[kind]], timeout_s=0.4)
    assert result.timed_out
    assert result.wall_s < 5
