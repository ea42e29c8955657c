"""What a sandbox may use is limited: output, memory, processes, disk, files, processor time."""

import errno

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, BackendReport, Sandbox
from tests.environments.sandboxes.probing import GUARD, MIB, Attack, made, needs, run_attack


async def test_output_beyond_the_cap_is_dropped_and_the_command_ends_well(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x; exit 4"], max_output=1000)
    assert (result.exit_code, result.stdout, result.truncated) == (4, "x" * 1000, True)


async def test_a_flood_of_output_is_ended_long_before_the_time_out(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "yes; yes >&2"], max_output=1000, timeout_s=60)
    assert (result.signal, result.truncated, result.timed_out) == (9, True, False)
    assert len(result.stdout) == 1000
    assert result.wall_s < 30


async def test_one_process_cannot_take_more_memory_than_allowed(backend: Backend) -> None:
    sandbox = await made(backend, memory_bytes=128 * MIB)
    code = "try:\n    x = bytearray(400 << 20); answer = 'taken'\nexcept MemoryError:\n    answer = 'refused'"
    assert await run_attack(sandbox, code) == "refused"
    await sandbox.destroy()


MANY_HOGS = """
import time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(b"x") * (60 << 20)
        open(f"held.{os.getpid()}", "w").close()
        time.sleep(20)
        os._exit(0)
time.sleep(1.5)
answer = len([name for name in os.listdir() if name.startswith("held")])
"""


@needs("memory_bytes")
async def test_many_processes_together_cannot_take_more_memory_than_allowed(backend: Backend) -> None:
    sandbox = await made(backend, memory_bytes=128 * MIB, disk_bytes=MIB)
    # 8 x 60 MiB are asked for, and 128 MiB (plus the small disk) are there.
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"{GUARD}{MANY_HOGS}\nprint(answer)"])
    assert result.signal == 9 or int(result.stdout) <= 2
    await sandbox.destroy()


@needs("max_processes")
async def test_a_fork_bomb_is_held(backend: Backend) -> None:
    sandbox = await made(backend, max_processes=20)
    code = """
import time
answer = 0
try:
    while answer < 500:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        answer += 1
except BlockingIOError:
    pass
"""
    assert 0 < await run_attack(sandbox, code) < 20
    await sandbox.destroy()


@needs("disk_bytes")
async def test_the_disk_is_one_budget_for_every_writable_place(backend: Backend) -> None:
    sandbox = await made(backend, disk_bytes=8 * MIB)
    code = """
answer, errors = 0, set()
for folder in ("/workspace", "/tmp", "/dev/shm"):
    for number in range(100):
        try:
            with open(f"{folder}/{number}", "wb", buffering=0) as file: answer += file.write(bytes(1 << 20))
        except OSError as error: errors.add(error.errno)
answer = [answer, sorted(errors)]
"""
    written, errors = await run_attack(sandbox, code)
    assert 6 * MIB <= written <= 8 * MIB
    assert errors == [errno.ENOSPC]
    with pytest.raises(SandboxError, match="No space left"):
        await sandbox.write("more", bytes(2 * MIB))
    await sandbox.destroy()


@needs("disk_bytes_per_place")
async def test_every_writable_place_has_a_disk_budget(backend: Backend) -> None:
    sandbox = await made(backend, disk_bytes=2 * MIB)
    code = """
answer = []
for folder in ("/workspace", "/tmp", "/dev/shm"):
    written, error = 0, 0
    try:
        with open(f"{folder}/big", "wb", buffering=0) as file:
            while written < 9 << 20: written += file.write(bytes(1 << 16))
    except OSError as e: error = e.errno
    answer.append([written >> 20, error])
"""
    assert {(size <= 2, number) for size, number in await run_attack(sandbox, code)} == {(True, errno.ENOSPC)}
    await sandbox.destroy()


@needs("disk_bytes")
async def test_the_number_of_files_is_limited(backend: Backend) -> None:
    sandbox = await made(backend, disk_bytes=MIB)
    code = (
        "answer = 0\ntry:\n    while answer < 9000: open(str(answer), 'w').close(); answer += 1\nexcept OSError: pass"
    )
    assert await run_attack(sandbox, code) < 2000
    await sandbox.destroy()


async def test_one_file_cannot_grow_beyond_its_limit(backend: Backend) -> None:
    sandbox = await made(backend, max_file_bytes=MIB)
    result = await sandbox.exec(["sh", "-c", "head -c 5000000 /dev/zero > f; wc -c < f"])
    assert result.stdout == f"{MIB}\n"
    await sandbox.destroy()


async def test_open_files_are_limited(backend: Backend) -> None:
    sandbox = await made(backend, max_open_files=40)
    code = "files = []\ntry:\n    while len(files) < 99: files.append(open('/dev/null'))\nexcept OSError: pass"
    code += "\nanswer = len(files)"
    assert 0 < await run_attack(sandbox, code) < 40
    await sandbox.destroy()


async def test_processor_time_is_limited(backend: Backend) -> None:
    sandbox = await made(backend, cpu_s=1)
    result = await sandbox.exec(["sh", "-c", "while :; do :; done"], timeout_s=60)
    assert result.signal in (9, 24)
    await sandbox.destroy()


async def test_limits_cannot_be_raised_from_inside(attack: Attack) -> None:
    code = """
import resource
answer = []
for kind in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
    try:
        resource.setrlimit(kind, (1 << 40, 1 << 40)); answer.append(kind)
    except (ValueError, OSError): pass
"""
    assert await attack(code) == []


async def test_results_and_report_name_the_same_limits(report: BackendReport, sandbox: Sandbox) -> None:
    result = await sandbox.exec(["true"])
    assert report.limits_enforced == result.limits_enforced
    assert {"max_file_bytes", "max_open_files", "wall_time", "output"} <= set(result.limits_enforced)


@needs("own_root")
def test_what_isolates_well_limits_disk_and_processes_too(report: BackendReport) -> None:
    assert {"disk_bytes", "disk_bytes_per_place"} & set(report.limits_enforced)
    assert "max_processes" in report.limits_enforced
