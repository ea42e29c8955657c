"""Processes, disk, names, descriptors: taking all there is."""

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
