"""Layered work dirs: shown at once, changed in private; snapshots, restores and forks whatever the project's size."""

import asyncio
import io
import secrets
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import processes_with, wait_until


@pytest.fixture(autouse=True)
async def _capable(sandbox: Sandbox) -> None:
    if not {"layers", "snapshot", "fork"} <= sandbox.capabilities:
        pytest.skip("this backend has no layers")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a few files, as its owner left it."""
    folder = tmp_path / "project"
    for path, text in {"a.txt": "one\n", "src/b.py": "print(2)\n", "src/deep/c": "three\n"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


async def out(sandbox: Sandbox, command: str) -> str:
    result = await sandbox.exec(command)
    assert result.exit_code == 0, result
    return result.stdout


CHANGE = "echo more >> a.txt; rm -r src/deep; echo new > src/new; mv src/b.py b.py; chmod 700 src"
LIST = "find . -type f | sort | xargs grep -H ."


async def test_a_layer_is_shown_may_be_changed_and_stays_what_it_was(backend: Backend, project: Path) -> None:
    before = {path: path.read_text() for path in project.rglob("*") if path.is_file()}
    first = await backend.create(SandboxSpec(layers=(str(project),)))
    second = await backend.create(SandboxSpec(layers=(str(project),)))
    await out(first, CHANGE)
    assert await out(first, LIST) == "./a.txt:one\n./a.txt:more\n./b.py:print(2)\n./src/new:new\n"
    assert await out(second, LIST) == "./a.txt:one\n./src/b.py:print(2)\n./src/deep/c:three\n"
    assert {path: path.read_text() for path in project.rglob("*") if path.is_file()} == before
    await first.destroy()
    await second.destroy()


async def test_upper_layers_hide_lower_ones(backend: Backend, project: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.txt").write_text("from the top\n")
    sandbox = await backend.create(SandboxSpec(layers=(str(top), str(project)), files={"own": "x"}))
    assert await out(sandbox, "cat a.txt src/b.py own") == "from the top\nprint(2)\nx"
    await sandbox.destroy()


async def test_an_archive_is_a_layer_too(backend: Backend, tmp_path: Path) -> None:
    archive = tmp_path / "layer.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        entry = tarfile.TarInfo("x/y")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    sandbox = await backend.create(SandboxSpec(layers=(str(archive),)))
    assert await out(sandbox, "cat x/y; echo d >> x/y; cat x/y") == "abcabcd\n"
    result = await sandbox.exec(["true"])
    assert len(result.provenance.layer_digests[0]) == 64
    await sandbox.destroy()


async def test_a_restored_sandbox_is_as_it_was_created(backend: Backend, project: Path) -> None:
    sandbox = await backend.create(SandboxSpec(layers=(str(project),), files={"own": "x"}))
    fresh = await sandbox.state_hash()
    await out(sandbox, f"{CHANGE}; rm own; echo left > /tmp/left; echo left > /dev/shm/left")
    assert await sandbox.state_hash() != fresh
    await sandbox.restore()
    assert await sandbox.state_hash() == fresh
    assert await out(sandbox, f"ls /tmp /dev/shm; {LIST}") == (
        "/dev/shm:\n\n/tmp:\n./a.txt:one\n./own:x\n./src/b.py:print(2)\n./src/deep/c:three\n"
    )
    await sandbox.destroy()


async def test_snapshots_are_returned_to_in_any_order(backend: Backend, project: Path) -> None:
    sandbox = await backend.create(SandboxSpec(layers=(str(project),)))
    await out(sandbox, "echo 1 > n")
    first = await sandbox.snapshot()
    await out(sandbox, "echo 2 > n; rm a.txt")
    second = await sandbox.snapshot()
    await out(sandbox, "echo 3 > n; mkdir src/x")
    for snapshot, expected in ((first, "1\na.txt\n"), (second, "2\n"), (first, "1\na.txt\n")):
        await sandbox.restore(snapshot)
        assert await out(sandbox, "cat n; ls a.txt 2>/dev/null || true") == expected
        await out(sandbox, "echo 9 > n; rm -f a.txt")
    with pytest.raises(SandboxError, match="no snapshot"):
        await sandbox.restore("snap_unknown")
    assert await out(sandbox, "cat n") == "9\n"
    await sandbox.destroy()


async def test_snapshots_work_without_any_layer(sandbox: Sandbox) -> None:
    await out(sandbox, "echo 1 > n; mkdir d")
    snapshot = await sandbox.snapshot()
    await out(sandbox, "echo 2 > n; rmdir d; echo x > x")
    await sandbox.restore(snapshot)
    assert await out(sandbox, "cat n; ls") == "1\nd\nn\n"
    assert await sandbox.read("n") == b"1\n"
    await sandbox.write("n", b"7\n")
    assert await out(sandbox, "cat n") == "7\n"


async def test_a_fork_goes_on_alone(backend: Backend, project: Path) -> None:
    parent = await backend.create(SandboxSpec(layers=(str(project),)))
    await out(parent, "echo parent > who; rm a.txt")
    child = await parent.fork()
    grandchild = await child.fork()
    await out(child, "echo child > who")
    await out(parent, "echo changed > who")
    await parent.destroy()
    assert await out(child, "cat who; ls") == "child\nsrc\nwho\n"
    snapshot = await grandchild.snapshot()
    await out(grandchild, "echo grandchild > who; echo more > src/deep/c")
    await child.destroy()
    assert await out(grandchild, "cat who src/deep/c") == "grandchild\nmore\n"
    await grandchild.restore(snapshot)
    assert await out(grandchild, "cat who src/deep/c") == "parent\nthree\n"
    await grandchild.destroy()


async def test_a_running_command_forbids_a_snapshot_and_a_restore_ends_it(sandbox: Sandbox) -> None:
    marker = f"8630.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sleep", marker], timeout_s=60))
    await asyncio.to_thread(wait_until, lambda: processes_with(f"sleep\0{marker}"))
    with pytest.raises(SandboxError, match="running"):
        await sandbox.snapshot()
    await sandbox.restore()
    assert (await running).signal == 9
    assert await out(sandbox, "ls") == ""


async def test_sessions_end_with_a_snapshot_and_begin_anew(sandbox: Sandbox) -> None:
    await sandbox.exec("x=1; cd /tmp", session="main")
    await sandbox.snapshot()
    assert (await sandbox.exec("echo ${x-none} $PWD", session="main")).stdout == "none /workspace\n"


async def test_what_is_written_counts_and_what_is_shown_does_not(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20 << 20))
    limits = replace(Limits(), disk_bytes=8 << 20)
    sandbox = await backend.create(SandboxSpec(layers=(str(tmp_path),), limits=limits))
    assert await out(sandbox, "stat -c %s large") == f"{20 << 20}\n"
    assert "No space left" in (await sandbox.exec("echo x >> large")).stderr
    await sandbox.destroy()


async def test_a_deleted_work_dir_is_the_agents_own_loss(backend: Backend, project: Path) -> None:
    for layers in ((), (str(project),)):
        sandbox = await backend.create(SandboxSpec(layers=layers, files={"own": "x"}))
        await sandbox.exec("rm -rf /workspace; rm -rf /workspace/.* /bin /usr /etc; chmod 000 /workspace")
        result = await sandbox.exec("ls -A; echo ok > f && cat f")
        assert result.exit_code is not None
        await sandbox.restore()
        assert (await out(sandbox, "cat own; /bin/echo fine")).endswith("xfine\n")
        await sandbox.destroy()


async def test_mounts_are_read_only_and_outside_of_the_work_dir(backend: Backend, project: Path) -> None:
    sandbox = await backend.create(SandboxSpec(mounts={"/data/set": str(project)}))
    assert await out(sandbox, "cat /data/set/a.txt; ls") == "one\n"
    assert (await sandbox.exec("echo x >> /data/set/a.txt")).exit_code != 0
    assert (project / "a.txt").read_text() == "one\n"
    await sandbox.destroy()


@pytest.mark.parametrize("path", ["", "/", "relative", "/a/../b", "/proc/x", "/usr", "/tmp/x"])
async def test_places_that_cannot_be_are_refused(backend: Backend, project: Path, path: str) -> None:
    with pytest.raises(SandboxError, match="cannot be"):
        await backend.create(SandboxSpec(work_dir=path))
    with pytest.raises(SandboxError, match="cannot be"):
        await backend.create(SandboxSpec(mounts={path: str(project)}))


async def test_another_work_dir_is_where_everything_happens(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(work_dir="/app/src", files={"f": "x"}))
    assert await out(sandbox, "pwd; cat f; echo $HOME") == "/app/src\nx/app/src\n"
    assert (await sandbox.exec("pwd", session="main")).stdout == "/app/src\n"
    await sandbox.destroy()


@pytest.mark.parametrize("source", ["/no/such/folder", "corrupt.tar"])
async def test_a_source_that_cannot_be_used_is_a_clear_error(backend: Backend, tmp_path: Path, source: str) -> None:
    (tmp_path / "corrupt.tar").write_bytes(b"not a tar" * 100)
    for spec in (SandboxSpec(layers=(str(tmp_path / source),)), SandboxSpec(image=str(tmp_path / source))):
        with pytest.raises(SandboxError, match=source.rsplit("/")[-1]):
            await backend.create(spec)


@given(st.lists(st.sampled_from(["echo $RANDOM > a", "rm -f a", "mkdir -p d; date +%N > d/x", "rm -rf d", ": > e"])))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_restoring_brings_back_the_state_hash(backend: Backend, steps: list[str]) -> None:
    async def check() -> None:
        sandbox = await backend.create(SandboxSpec(files={"a": "1"}))
        await sandbox.exec("; ".join(["true", *steps]))
        before, snapshot = await sandbox.state_hash(), await sandbox.snapshot()
        assert await sandbox.state_hash() == before
        await sandbox.exec("; ".join(["echo other > a", *reversed(steps)]))
        await sandbox.restore(snapshot)
        assert await sandbox.state_hash() == before
        await sandbox.destroy()

    asyncio.run(check())
