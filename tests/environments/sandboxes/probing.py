"""What the sandbox tests share: code that attacks only from inside, and a look at this machine's processes."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from environments.sandboxes.base import Sandbox

# Attack code refuses to run anywhere but inside a sandbox.
GUARD = "import json, os, socket\nassert socket.gethostname() == 'sandbox' and os.getcwd() == '/workspace'\n"

Attack = Callable[..., Awaitable[Any]]


async def run_attack(sandbox: Sandbox, code: str, **options: Any) -> Any:
    """Run Python inside; the code assigns `answer`, which is returned."""
    program = GUARD + code + "\nprint(json.dumps(answer))"
    result = await sandbox.exec(["python3", "-I", "-S", "-c", program], **options)
    assert result.exit_code == 0, result
    return json.loads(result.stdout)


def processes_with(marker: str) -> list[int]:
    """Processes of this machine, zombies aside, with `marker` on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """The first true value of `condition`; fails the test when there is none in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("waited in vain")


async def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> None:
    """Wait in this event loop for `condition`; fails the test when it does not come true in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
