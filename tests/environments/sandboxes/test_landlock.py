"""What only the Landlock backend has: its opt-in, and what it does when Assay is killed."""

import platform
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

import environments
from assay.errors import SandboxUnavailable
from environments.sandboxes import _landlock
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.landlock import Landlock
from tests.environments.sandboxes.probing import processes_with, run_attack, wait_until

ROOT = Path(str(environments.__file__)).parents[1]
kernel_has_it = pytest.mark.skipif(
    platform.system() != "Linux" or _landlock.abi() < 1, reason="this kernel offers no Landlock"
)


async def test_without_the_opt_in_nothing_is_made_and_the_error_says_what_is_missing() -> None:
    backend = Landlock(Landlock.Config())
    with pytest.raises(SandboxUnavailable, match=r"no process namespace.*i_accept_weaker_isolation=true"):
        await backend.create(SandboxSpec())
    assert not (await backend.probe()).works


async def test_a_kernel_without_landlock_is_never_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_landlock, "abi", lambda: 0)
    with pytest.raises(SandboxUnavailable, match="Nothing weaker is used instead"):
        await Landlock(Landlock.Config(i_accept_weaker_isolation=True)).create(SandboxSpec())


@kernel_has_it
async def test_sockets_to_other_machines_are_refused() -> None:
    backend = Landlock(Landlock.Config(i_accept_weaker_isolation=True))
    sandbox = await backend.create(SandboxSpec())
    code = """
answer = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try: socket.socket(family, kind).close(); answer.append(family)
        except OSError: pass
"""
    assert await run_attack(sandbox, code) == [1, 1]
    backend.close()


ASSAY = """
import asyncio, sys
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.landlock import Landlock
async def main():
    sandbox = await Landlock(Landlock.Config(i_accept_weaker_isolation=True)).create(SandboxSpec())
    print(sandbox.work_dir, flush=True)
    await sandbox.exec(["sh", "-c", f"sleep {sys.argv[1]} & setsid sleep {sys.argv[1]}"], timeout_s=100)
asyncio.run(main())
"""


@kernel_has_it
def test_when_assay_is_killed_no_process_and_no_folder_stays() -> None:
    marker = f"8632.{secrets.randbelow(10**12):012}"
    process = subprocess.Popen([sys.executable, "-c", ASSAY, marker], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        work_dir = Path(process.stdout.readline().strip())
        wait_until(lambda: len(processes_with(f"sleep\0{marker}")) >= 2)
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not processes_with(marker))
    wait_until(lambda: not work_dir.exists())
