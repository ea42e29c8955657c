"""Processes, processor time, disk, descriptors, output, time: taking all there is."""

import asyncio
from dataclasses import replace

import pytest

from environments.sandboxes.base import Limits, Sandbox, SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import CALLS
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, run_attack

MIB = 1 << 20


async def limited(backend: Bubblewrap, **limits: int) -> Sandbox:
    return await backend.create(SandboxSpec(limits=replace(Limits(), **limits)))


BOMBS = {
    "processes": """
import time
answer = 0
try:
    while answer < 100:
        if os.fork() == 0: time.sleep(20); os._exit(0)
        answer += 1
except BlockingIOError: pass
""",
    "generations": """
import time
reader, writer = os.pipe()
if os.fork() == 0:
    for _ in range(100):
        os.write(writer, b"x")
        try: child = os.fork()
        except BlockingIOError: break
        if child: time.sleep(20); os._exit(0)
    time.sleep(20); os._exit(0)
time.sleep(0.7)
answer = len(os.read(reader, 1000))
""",
    "threads": """
import threading
answer, gate = 0, threading.Event()
threading.stack_size(1 << 16)
try:
    while answer < 100: threading.Thread(target=gate.wait, daemon=True).start(); answer += 1
except RuntimeError: pass
gate.set()
""",
}


@pytest.mark.parametrize("kind", BOMBS)
async def test_a_fork_bomb_is_held(backend: Bubblewrap, kind: str) -> None:
    assert weaker(BOMBS[kind], unlimited=["processes"]) == 100
    sandbox = await limited(backend, max_processes=20)
    assert 0 < await run_attack(sandbox, BOMBS[kind]) <= 20
    await sandbox.destroy()


CROWD = """
import time
try:
    while True:
        if os.fork() == 0: time.sleep(3); os._exit(0)
except BlockingIOError: pass
open("full", "w").close()
time.sleep(3)
answer = 0
"""
WHILE_CROWDED = """
meanwhile = '''
import time
while not os.path.exists("/srv/workspace/full"): time.sleep(0.02)
try: os.waitpid(os.fork() or os._exit(0), 0); able = True
except BlockingIOError: able = False
process.kill()
'''
"""


async def test_others_still_work_when_one_has_taken_every_process_it_can(backend: Bubblewrap) -> None:
    control = weaker(CROWD, unlimited=["processes"], machine=WHILE_CROWDED, afterwards="answer = able")
    assert control is False
    crowded, other = await limited(backend), await limited(backend)
    program = ["python3", "-I", "-S", "-c", GUARD + CROWD]
    running = asyncio.create_task(crowded.exec(program, timeout_s=2))
    while (await other.exec(["true"])).exit_code == 0 and not running.done():
        if "full" in await listing(crowded):
            break
        await asyncio.sleep(0.05)
    assert (await other.exec(["sh", "-c", "echo $(echo works)"])).stdout == "works\n"
    await crowded.destroy()
    await running
    await other.destroy()


async def listing(sandbox: Sandbox) -> list[str]:
    """The name `full` when the sandbox has a file of that name; no process is needed for it."""
    try:
        await sandbox.read("full")
    except Exception:
        return []
    return ["full"]


BURN = """
import resource, time
def spent(): return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
while spent() < 1.1: pass
answer = round(spent(), 1)
"""
EVADE = BURN.replace("while spent() < 1.1: pass", """
for _ in range(4):
    child = os.fork()
    if child == 0:
        while spent() < 0.3: pass
        os._exit(0)
    os.waitpid(child, 0)
""")


async def test_one_process_does_not_burn_more_processor_time_than_allowed(backend: Bubblewrap) -> None:
    assert weaker(BURN, unlimited=["cpu"]) >= 1.1
    sandbox = await limited(backend, cpu_s=1)
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"{GUARD}{BURN}\nprint(answer)"], timeout_s=30)
    assert result.signal in (9, 24)
    await sandbox.destroy()


async def test_dividing_the_work_among_children_gains_no_more_than_the_limits_say(backend: Bubblewrap) -> None:
    """Each child stays below the limit. Where the sum is not limited the result says so, and the clock ends it."""
    assert weaker(EVADE, unlimited=["cpu"]) >= 1.1
    sandbox = await limited(backend, cpu_s=1)
    endless = EVADE.replace("range(4)", "range(1000)")
    summed = "cpu_s" in (await backend.probe()).limits_enforced
    program = ["python3", "-I", "-S", "-c", f"{GUARD}{endless}"]
    result = await sandbox.exec(program, timeout_s=30 if summed else 1.5)
    assert result.timed_out is not summed
    assert result.exit_code is None
    await sandbox.destroy()


FILL = """
answer, errors = 0, set()
for folder in ("/workspace", "/tmp"):
    for number in range(12):
        try:
            with open(f"{folder}/{number}", "wb", buffering=0) as file: answer += file.write(bytes(1 << 20))
        except OSError: pass
"""
NAMES = """
answer = 0
try:
    while answer < 6000: open(f"/tmp/{answer}", "w").close(); answer += 1
except OSError: pass
"""
OPEN = """
answer = []
try:
    while len(answer) < 200: answer.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
answer = len(answer)
"""
SPARSE = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("f", "wb") as file: outcome = attempt(file.truncate, 8 << 40)
answer = os.path.getsize("f")
"""
GREED = {
    "disk": (FILL, 24 * MIB, {"disk_bytes": 8 * MIB}, 8 * MIB, ()),
    "names": (NAMES, 6000, {"disk_bytes": MIB}, 1100, ()),
    "descriptors": (OPEN, 200, {"max_open_files": 40}, 40, ()),
    "one file": (CALLS + SPARSE, 8 << 40, {"max_file_bytes": MIB}, MIB, ("file_size",)),
}


@pytest.mark.parametrize("kind", GREED)
async def test_no_more_is_given_than_allowed(backend: Bubblewrap, kind: str) -> None:
    code, everything, limits, most, unlimited = GREED[kind]
    assert weaker(code, unlimited=unlimited) == everything
    sandbox = await limited(backend, **limits)
    assert await run_attack(sandbox, code) <= most
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
