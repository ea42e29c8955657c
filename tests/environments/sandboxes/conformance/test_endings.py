"""Commands end: at their time-out, when cancelled, with all they started."""

import asyncio
import contextlib
import secrets

import pytest

from environments.sandboxes.base import Sandbox
from tests.environments.sandboxes.probing import eventually, processes_of

STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        os.execvp("sleep", ["sleep", "MARK"])
    os._exit(0)
subprocess.Popen(["setsid", "nohup", "sleep", "MARK"])
print("started", flush=True)
END
"""


async def several(sandbox: Sandbox, marker: str) -> bool:
    return len(await processes_of(sandbox, marker)) >= 2


async def none(sandbox: Sandbox, marker: str) -> bool:
    return not await processes_of(sandbox, marker)


@pytest.mark.parametrize("ends", [False, True], ids=["at the time-out", "after a normal end"])
async def test_nothing_a_command_started_outlives_it(sandbox: Sandbox, ends: bool) -> None:
    marker = f"8639.{secrets.randbelow(10**12):012}"
    program = STUBBORN.replace("MARK", marker).replace("END", "" if ends else "time.sleep(100)")
    await sandbox.write("stubborn.py", program.encode())
    running = asyncio.create_task(sandbox.exec(["python3", "stubborn.py"], timeout_s=4))
    if not ends:
        await eventually(lambda: several(sandbox, marker))
    result = await running
    assert await processes_of(sandbox, marker) == []
    assert result.stdout == "started\n"
    assert (result.timed_out, result.exit_code) == ((False, 0) if ends else (True, None))


async def test_a_time_out_is_kept_even_when_everything_is_stopped(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "kill -STOP -1; kill -STOP $$; sleep 50"], timeout_s=0.5)
    assert result.timed_out
    assert result.wall_s < 10


async def test_a_cancelled_command_ends(sandbox: Sandbox) -> None:
    marker = f"8638.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sleep", marker], timeout_s=60))
    await eventually(lambda: processes_of(sandbox, f"sleep\0{marker}"))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await eventually(lambda: none(sandbox, marker))
    assert (await sandbox.exec(["echo", "still fine"])).stdout == "still fine\n"
