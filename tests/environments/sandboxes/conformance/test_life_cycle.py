"""Sandboxes come and go: many at once, from several event loops, and nothing of them stays."""

import asyncio
import secrets
import threading
from pathlib import Path

import pytest

from assay.errors import SandboxError, SandboxUnsupported
from environments.sandboxes.base import Backend, BackendReport, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import eventually, made, needs, processes_of, processes_with, promises_of


async def test_destroying_twice_is_fine_and_afterwards_nothing_works(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec())
    await sandbox.destroy()
    await sandbox.destroy()
    for attempt in (sandbox.exec(["true"]), sandbox.read("f"), sandbox.write("f", b"")):
        with pytest.raises(SandboxError, match="destroyed"):
            await attempt


async def test_destroying_ends_running_commands_before_it_returns(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec())
    marker = f"8636.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sleep", marker], timeout_s=60))
    await eventually(lambda: processes_of(sandbox, f"sleep\0{marker}"))
    await sandbox.destroy()
    assert processes_with(marker) == []
    assert (await running).signal == 9


async def test_a_failing_creation_leaves_no_sandbox(backend: Backend) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        await backend.create(SandboxSpec(files={"../escape": ""}))


async def test_a_size_the_kernel_refuses_is_an_error_and_not_a_broken_backend(backend: Backend) -> None:
    with pytest.raises(SandboxError):
        await made(backend, disk_bytes=-1)
    await (await backend.create(SandboxSpec())).destroy()


async def test_many_sandboxes_at_once_do_not_mix_their_answers(backend: Backend) -> None:
    async def one(number: int) -> str:
        sandbox = await backend.create(SandboxSpec(files={"number": str(number)}))
        result = await sandbox.exec(["sh", "-c", "cat number; pwd > mine; cat mine"], timeout_s=60)
        await sandbox.destroy()
        return result.stdout

    # A kernel or container per sandbox takes much longer than namespaces do.
    count = 32 if "filtered" in promises_of(backend) else 4
    answers = await asyncio.gather(*(one(number) for number in range(count)))
    assert [answer.partition("/")[0] for answer in answers] == [str(number) for number in range(count)]
    assert all(answer.endswith("/workspace\n") for answer in answers)


async def test_commands_that_wait_for_a_slot_do_not_lose_their_time(backend: Backend, sandbox: Sandbox) -> None:
    commands = [sandbox.exec(["sleep", "0.2"], timeout_s=5) for _ in range(24)]
    assert not any(result.timed_out for result in await asyncio.gather(*commands))


def test_one_backend_serves_several_event_loops(backend: Backend) -> None:
    async def one() -> str:
        sandbox = await backend.create(SandboxSpec())
        try:
            return (await sandbox.exec(["echo", "hi"])).stdout
        finally:
            await sandbox.destroy()

    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(one()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [*answers, asyncio.run(one())] == ["hi\n"] * 4


def test_the_report_names_the_capabilities_that_are_promised(backend: Backend, report: BackendReport) -> None:
    known = {"session", "layers", "snapshot", "fork", "image", "image_name", "mounts", "network", "cgroup", "own_pids"}
    known |= {"writable"}
    promised = promises_of(backend) & (known | {"own_kernel"})
    assert promised <= set(report.capabilities)
    assert set(report.capabilities) <= known | {"own_kernel"}


async def test_what_a_backend_cannot_do_is_refused_by_name(report: BackendReport, sandbox: Sandbox) -> None:
    attempts = {"session": sandbox.exec("true", session="main"), "snapshot": sandbox.snapshot(), "fork": sandbox.fork()}
    for name, attempt in attempts.items():
        if name in report.capabilities:
            attempt.close()
            continue
        with pytest.raises(SandboxUnsupported, match=name):
            await attempt


async def test_a_spec_that_asks_for_too_much_is_refused_by_name(backend: Backend, report: BackendReport) -> None:
    wishes = {"layers": SandboxSpec(layers=("/usr",)), "mounts": SandboxSpec(mounts={"/data": "/usr/share"})}
    wishes |= {"network": SandboxSpec(network="full"), "writable": SandboxSpec(writable=("/logs",))}
    for name in wishes.keys() - set(report.capabilities):
        with pytest.raises(SandboxUnsupported, match=name):
            await backend.create(wishes[name])


@needs("mounts")
async def test_mounts_are_shown_and_cannot_be_written(backend: Backend, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "f").write_text("shown")
    sandbox = await backend.create(SandboxSpec(mounts={"/data": str(tmp_path)}))
    assert (await sandbox.exec("cat /data/f; echo x > /data/f || echo refused")).stdout == "shownrefused\n"
    assert (tmp_path / "f").read_text() == "shown"
    await sandbox.destroy()


@needs("writable")
async def test_further_folders_can_be_written_and_begin_empty(backend: Backend) -> None:
    spec = SandboxSpec(work_dir="/app", writable=("/logs/verifier", "/solution"))
    sandbox, other = await backend.create(spec), await backend.create(spec)
    assert (await sandbox.exec("echo 1 > /logs/verifier/reward.txt && mkdir /solution/a")).exit_code == 0
    assert (await sandbox.exec("cat /logs/verifier/reward.txt; ls /solution")).stdout == "1\na\n"
    assert (await sandbox.exec("echo 1 > /logs/x || echo refused")).stdout == "refused\n"
    assert (await other.exec("ls -A /logs/verifier /solution")).stdout == "/logs/verifier:\n\n/solution:\n"
    if "snapshot" in sandbox.capabilities:
        await sandbox.restore()
        assert (await sandbox.exec("ls -A /logs/verifier; cd /solution && touch a && echo fine")).stdout == "fine\n"
    await sandbox.destroy()
    await other.destroy()


@needs("writable")
@pytest.mark.parametrize("path", ["logs", "/", "/tmp/x", "/usr/x", "/workspace/x", "/data/x"])
async def test_folders_that_would_cover_others_are_refused(backend: Backend, path: str) -> None:
    with pytest.raises(SandboxError, match=r"cannot be|lie in each other"):
        await backend.create(SandboxSpec(mounts={"/data": "/usr/share"}, writable=(path,)))


async def test_results_say_exactly_what_they_ran_in(backend: Backend) -> None:
    specs = [SandboxSpec(labels={"run": "r1"}), SandboxSpec(labels={"run": "r2"}), SandboxSpec(env={"A": "1"})]
    hashes = []
    for spec in specs:
        sandbox = await backend.create(spec)
        provenance = (await sandbox.exec(["true"])).provenance
        assert provenance.backend == backend.id
        assert provenance.version
        hashes.append(provenance.spec_hash)
        await sandbox.destroy()
    assert hashes[0] == hashes[1] != hashes[2]
