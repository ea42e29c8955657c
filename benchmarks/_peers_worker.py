"""Runs under `.venv-peers`: the local runtimes of swe-rex, inspect-ai and verifiers, which isolate nothing.

Knows nothing of Assay. Each run is what a user of the library does for one sandbox: create it, run, destroy it.
"""

import asyncio
import json
import logging
import sys
import time
from importlib.metadata import version
from typing import Any

from inspect_ai.util._sandbox.local import LocalSandboxEnvironment  # type: ignore[import-not-found]
from swerex.deployment.local import LocalDeployment  # type: ignore[import-not-found]
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest  # type: ignore[import-not-found]
from verifiers.v1.runtimes.subprocess import SubprocessConfig, SubprocessRuntime  # type: ignore[import-not-found]


def say(**values: Any) -> None:
    sys.stdout.write("@@ " + json.dumps(values) + "\n")
    sys.stdout.flush()


async def swe_rex(payload: list[str]) -> bool:
    deployment = LocalDeployment()
    await deployment.start()
    result = await deployment.runtime.execute(Command(command=payload))
    await deployment.stop()
    return result.exit_code == 0


async def inspect_ai(payload: list[str]) -> bool:
    environments = await LocalSandboxEnvironment.sample_init("task", None, {})
    result = await environments["default"].exec(payload)
    await LocalSandboxEnvironment.sample_cleanup("task", None, environments, interrupted=False)
    return result.success


async def verifiers(payload: list[str]) -> bool:
    runtime = SubprocessRuntime(SubprocessConfig())
    await runtime.start()
    result = await runtime.run(payload, {})
    await runtime.stop()
    return result.exit_code == 0


RUNS = {"swe-rex": swe_rex, "inspect-ai": inspect_ai, "verifiers": verifiers}


async def timed(order: dict[str, Any]) -> list[float]:
    """Seconds of each of `times` runs."""
    seconds = []
    for _ in range(order["times"]):
        began = time.perf_counter()
        works = await RUNS[order["do"]](order["payload"])
        seconds.append(time.perf_counter() - began)
        if not works:
            raise RuntimeError(f"{order['do']} could not run {order['payload']}")
    return seconds


async def session(order: dict[str, Any]) -> tuple[float, list[float]]:
    """Seconds of swe-rex's bash session: until the first command has run, then of each further one."""
    deployment = LocalDeployment()
    began = time.perf_counter()
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())
    await deployment.runtime.run_in_session(BashAction(command="true"))
    first, seconds = time.perf_counter() - began, []
    for command in order["commands"]:
        began = time.perf_counter()
        await deployment.runtime.run_in_session(BashAction(command=command))
        seconds.append(time.perf_counter() - began)
    await deployment.stop()
    return first, seconds


async def main() -> None:
    logging.disable(logging.CRITICAL)
    say(versions={name: version(name) for name in RUNS})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "session":
                first, seconds = await session(order)
                say(first=first, seconds=seconds)
            else:
                say(seconds=await timed(order))
        except Exception as error:  # whatever a library raises is told, not hidden in a log
            say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main())
