"""What every sandbox backend must do: run commands faithfully, keep to the limits, leak nothing, leave nothing."""

import asyncio
import contextlib
import errno
import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import GUARD, Attack, processes_with, run_attack, wait_until

MIB = 1 << 20


# --- commands ---------------------------------------------------------------------------------------------------------


async def test_a_command_answers_with_its_output_and_exit_code(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (3, None, "out\n", "err\n")
    assert not result.truncated
    assert not result.timed_out


async def test_standard_input_arrives_whole_and_then_ends(sandbox: Sandbox) -> None:
    data = secrets.token_hex(300_000)
    result = await sandbox.exec(["cat"], stdin=data.encode(), max_output=MIB)
    assert result.stdout == data


async def test_without_input_a_reader_sees_the_end_at_once(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["cat"])).exit_code == 0


async def test_a_command_ended_by_a_signal_says_which(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "kill -SEGV $$"])
    assert (result.exit_code, result.signal) == (None, 11)


async def test_bytes_that_are_not_utf8_are_replaced_not_fatal(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["printf", r"a\377b"])
    assert result.stdout == "a\ufffdb"


async def test_an_unknown_command_is_the_callers_result_not_a_failure(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["no-such-command"])
    assert result.exit_code == 127
    assert "no-such-command" in result.stderr


@pytest.mark.parametrize(
    "argv", [["echo", "a\0b"], ["echo", "x" * 300_000], ["/workspace"]], ids=["nul", "long", "dir"]
)
async def test_a_command_that_cannot_be_executed_answers_126(sandbox: Sandbox, argv: list[str]) -> None:
    assert (await sandbox.exec(argv)).exit_code == 126


async def test_an_empty_command_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="at least one word"):
        await sandbox.exec([])


async def test_environment_holds_what_was_given_and_nothing_of_ours(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_S3_SECRET_KEY", "hunter2")
    sandbox = await backend.create(SandboxSpec(env={"A": "1", "B": "2"}))
    code = "import glob\nanswer = [dict(os.environ)]"
    code += "\nfor p in glob.glob('/proc/[0-9]*/environ'): answer.append(open(p, errors='replace').read())"
    program = f"{code}\nimport json; print(json.dumps(answer))"
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"import os\n{program}"], env={"B": "3"})
    environment, *others = json.loads(result.stdout)
    assert (environment["A"], environment["B"]) == ("1", "3")
    assert "hunter2" not in str(environment)
    assert not any("hunter2" in text for text in others)
    await sandbox.destroy()


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
async def test_a_variable_name_that_cannot_be_is_refused(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(SandboxError, match="Environment variables"):
        await sandbox.exec(["true"], env={name: "1"})


async def test_python_inside_has_its_standard_library_and_nothing_else(attack: Attack) -> None:
    code = """
import sys, importlib.util, sqlite3, ssl, ctypes, multiprocessing
sys.path.append(f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
answer = [list(sys.version_info[:2]), importlib.util.find_spec("pydantic") is None]
"""
    version, bare = await attack(code)
    assert version >= [3, 8]
    assert bare


async def test_multiprocessing_locks_work_inside(attack: Attack) -> None:
    assert await attack("import multiprocessing; multiprocessing.Lock(); answer = 'made'") == "made"


# --- files ------------------------------------------------------------------------------------------------------------


async def test_files_of_the_spec_are_there_and_belong_to_the_agent(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(files={"a.txt": "é", "deep/er/b.py": "print(7)"}))
    assert (await sandbox.exec(["sh", "-c", "cat a.txt && python3 deep/er/b.py && rm -r a.txt deep"])).stdout == "é7\n"
    await sandbox.destroy()


async def test_files_stay_between_commands_and_can_be_read(sandbox: Sandbox) -> None:
    await sandbox.exec(["sh", "-c", "mkdir d; printf one > d/f; printf two > /tmp/g"])
    assert await sandbox.read("d/f") == b"one"
    assert (await sandbox.exec(["cat", "d/f", "/tmp/g"])).stdout == "onetwo"


async def test_writing_replaces_a_file_and_the_agent_may_change_it(sandbox: Sandbox) -> None:
    await sandbox.write("f", b"first and longer")
    await sandbox.write("f", b"second")
    await sandbox.exec(["sh", "-c", "printf + >> f"])
    assert await sandbox.read("f") == b"second+"


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../../x", "./x", "a//b", "a/", "a\0b", "\ud800"])
async def test_paths_that_could_lead_elsewhere_are_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        await sandbox.write(path, b"")
    with pytest.raises(SandboxError, match="not allowed"):
        await sandbox.read(path)


async def test_links_are_never_followed_out_of_the_work_dir(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    await sandbox.exec(["sh", "-c", f"ln -s {secret} file; ln -s {tmp_path} folder"])
    for path in ("file", "folder/secret"):
        with pytest.raises(SandboxError, match="Cannot"):
            await sandbox.read(path)
    with pytest.raises(SandboxError, match="Cannot"):
        await sandbox.write("folder/secret", b"overwritten")
    await sandbox.write("file", b"the link itself is replaced")
    assert secret.read_text() == "hunter2"
    assert await sandbox.read("file") == b"the link itself is replaced"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkfifo f", "not a regular file"),
        ("mkdir f", "not a regular file"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\")'", "Cannot read"),
        ("echo > g; ln g f", "2 hard links"),
        ("head -c 2000 /dev/zero > f", "2000 bytes"),
        ("truncate -s 10M f", "10485760 bytes"),
        ("true", "No such file"),
    ],
    ids=["fifo", "folder", "socket", "hard link", "large", "sparse", "missing"],
)
async def test_only_small_regular_files_with_one_name_are_read(sandbox: Sandbox, make: str, reason: str) -> None:
    assert (await sandbox.exec(["sh", "-c", make])).exit_code == 0
    with pytest.raises(SandboxError, match=reason):
        await asyncio.wait_for(sandbox.read("f", max_bytes=1000), 5)


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_output_beyond_the_cap_is_dropped_and_the_command_ends_well(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x; exit 4"], max_output=1000)
    assert (result.exit_code, result.stdout, result.truncated) == (4, "x" * 1000, True)


async def test_a_flood_of_output_is_ended_long_before_the_time_out(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "yes; yes >&2"], max_output=1000, timeout_s=60)
    assert (result.signal, result.truncated, result.timed_out) == (9, True, False)
    assert len(result.stdout) == 1000
    assert result.wall_s < 30


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


@pytest.mark.parametrize("ends", [False, True], ids=["at the time-out", "after a normal end"])
async def test_nothing_a_command_started_outlives_it(sandbox: Sandbox, ends: bool) -> None:
    marker = f"8639.{secrets.randbelow(10**12):012}"
    program = STUBBORN.replace("MARK", marker).replace("END", "" if ends else "time.sleep(100)")
    await sandbox.write("stubborn.py", program.encode())
    running = asyncio.create_task(sandbox.exec(["python3", "stubborn.py"], timeout_s=3))
    if not ends:
        await asyncio.to_thread(wait_until, lambda: len(processes_with(marker)) >= 2)
    result = await running
    assert processes_with(marker) == []
    assert result.stdout == "started\n"
    assert (result.timed_out, result.exit_code) == ((False, 0) if ends else (True, None))


async def test_a_time_out_is_kept_even_when_everything_is_stopped(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "kill -STOP -1; kill -STOP $$; sleep 50"], timeout_s=0.5)
    assert result.timed_out
    assert result.wall_s < 10


async def test_a_cancelled_command_ends(sandbox: Sandbox) -> None:
    marker = f"8638.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sleep", marker], timeout_s=60))
    await asyncio.to_thread(wait_until, lambda: processes_with(marker))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_until, lambda: not processes_with(marker))
    assert (await sandbox.exec(["echo", "still fine"])).stdout == "still fine\n"


async def made(backend: Backend, **limits: int) -> Sandbox:
    return await backend.create(SandboxSpec(limits=replace(Limits(), **limits)))


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


async def test_many_processes_together_cannot_take_more_memory_than_allowed(backend: Backend) -> None:
    sandbox = await made(backend, memory_bytes=128 * MIB, disk_bytes=MIB)
    # 8 x 60 MiB are asked for, and 128 MiB (plus the small disk) are there.
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"{GUARD}{MANY_HOGS}\nprint(answer)"])
    assert result.signal == 9 or int(result.stdout) <= 2
    await sandbox.destroy()


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


async def test_the_number_of_files_is_limited(backend: Backend) -> None:
    sandbox = await made(backend, disk_bytes=MIB)
    code = (
        "answer = 0\ntry:\n    while answer < 9000: open(str(answer), 'w').close(); answer += 1\nexcept OSError: pass"
    )
    assert await run_attack(sandbox, code) < 2000
    await sandbox.destroy()


async def test_one_file_cannot_grow_beyond_its_limit(backend: Backend) -> None:
    sandbox = await made(backend, max_file_bytes=MIB)
    result = await sandbox.exec(["sh", "-c", "head -c 5000000 /dev/zero > f; stat -c %s f"])
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


async def test_results_and_report_name_the_same_limits(backend: Backend, sandbox: Sandbox) -> None:
    result, report = await sandbox.exec(["true"]), await backend.probe()
    assert report.works
    assert report.limits_enforced == result.limits_enforced
    assert {"disk_bytes", "max_processes", "wall_time", "output"} <= set(result.limits_enforced)


# --- isolation --------------------------------------------------------------------------------------------------------


async def test_the_hosts_files_are_not_there(attack: Attack, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    hidden = [str(tmp_path), str(Path(__file__).parent), str(Path.home()), "/root", "/home", "/var", "/boot", "/sys"]
    hidden += ["/etc/shadow", "/etc/hostname", "/run", "/mnt", "/srv", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/mem"]
    assert await attack(f"answer = [path for path in {hidden!r} if os.path.exists(path)]") == []


async def test_other_sandboxes_are_not_there(backend: Backend, attack: Attack) -> None:
    other = await backend.create(SandboxSpec(files={"answer-key": "hunter2"}))
    code = """
answer = []
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if (folder, name) not in {("/", "proc"), ("/", "usr"), ("/", "opt")}]
    answer += [name for name in files if name == "answer-key"]
"""
    assert await attack(code) == []
    await other.destroy()


async def test_only_the_own_places_are_writable(attack: Attack) -> None:
    code = """
answer = []
for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/proc/sys/kernel", "/opt", "/workspace", "/tmp", "/dev/shm"):
    try:
        open(f"{folder}/probe", "w").close(); answer.append(folder)
    except OSError: pass
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory"):
    try:
        os.close(os.open(path, os.O_RDWR)); answer.append(path)
    except OSError: pass
"""
    assert await attack(code) == ["/workspace", "/tmp", "/dev/shm"]


async def test_only_own_processes_are_visible(attack: Attack) -> None:
    pids = await attack("answer = [int(name) for name in os.listdir('/proc') if name.isdigit()]")
    assert len(pids) <= 3
    assert max(pids) < 20


async def test_nothing_but_the_three_standard_descriptors_is_inherited(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "cd /proc/self/fd; echo *"])
    # `*` is expanded by the shell itself, which holds the folder open while it reads it.
    assert len(result.stdout.split()) <= 4
    assert result.stdout.split()[:3] == ["0", "1", "2"]


@pytest.fixture
def listener() -> Iterator[tuple[int, str]]:
    """A TCP port and an abstract unix socket of this machine on which somebody listens."""
    name = f"assay-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        yield tcp.getsockname()[1], name


async def test_there_is_no_network_but_an_empty_loopback(attack: Attack, listener: tuple[int, str]) -> None:
    port, name = listener
    code = f"""
def reach(family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2); s.connect(address)
            if kind == socket.SOCK_DGRAM: s.send(b"x")
            return True
    except OSError: return False
answer = [
    reach(socket.AF_INET, ("127.0.0.1", {port})),
    reach(socket.AF_INET, ("1.1.1.1", 53)),
    reach(socket.AF_INET, ("1.1.1.1", 53), socket.SOCK_DGRAM),
    reach(socket.AF_UNIX, "\\0{name}"),
    [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
]
"""
    assert await attack(code) == [False, False, False, False, ["lo"]]


async def test_programs_inside_may_talk_to_each_other_over_loopback(attack: Attack) -> None:
    code = """
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    accepted, _ = server.accept(); client.send(b"x"); answer = accepted.recv(1).decode()
"""
    assert await attack(code) == "x"


async def test_the_agent_is_nobody_on_the_host(sandbox: Sandbox) -> None:
    marker = f"8637.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(["sleep", marker], timeout_s=30))
    pids = await asyncio.to_thread(wait_until, lambda: processes_with(marker))
    uids = {line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Uid" in line}
    running.cancel()
    real = {int(field) for line in uids for field in line.split()[1:]}
    assert real
    assert 0 not in real
    if os.getuid() != 0:
        assert real == {os.getuid()}


SYSTEM_CALLS = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
calls = {
    "unshare user": ((272, 97), 0x10000000), "unshare mount": ((272, 97), 0x20000), "setns": ((308, 268), 0, 0),
    "ptrace": ((101, 117), 0, 0, 0, 0), "process_vm_readv": ((310, 270), 1, 0, 0, 0, 0, 0),
    "keyctl": ((250, 219), 0, -3, 0),
    "add_key": ((248, 217), 0, 0, 0, 0, 0), "io_uring_setup": ((425, 425), 1, 0), "bpf": ((321, 280), 0, 0, 0),
    "userfaultfd": ((323, 282), 0), "perf_event_open": ((298, 241), 0, 0, -1, -1, 0),
    "mount": ((165, 40), 0, 0, 0, 0, 0),
    "pivot_root": ((155, 41), 0, 0), "chroot": ((161, 51), b"/"), "memfd_create": ((319, 279), b"x", 0),
    "shmget": ((29, 194), 0, 4096, 0o1600), "clone new user": ((56, 220), 0x10000011, 0, 0, 0, 0),
    "clone3": ((435, 435), 0, 88), "open_by_handle_at": ((304, 265), 0, 0, 0), "personality": ((135, 92), 0x40000),
    "fsopen": ((430, 430), b"tmpfs", 0), "clock_settime": ((227, 112), 0, 0), "swapon": ((167, 224), 0, 0),
    "init_module": ((175, 105), 0, 0, 0), "reboot": ((169, 142), 0, 0, 0, 0), "unknown": ((9999, 9999),),
}
answer = {}
for name, (numbers, *arguments) in calls.items():
    ctypes.set_errno(0)
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(numbers[column]), *words)
    if result == 0 and name.startswith("clone"): os._exit(9)
    answer[name] = errno.errorcode.get(ctypes.get_errno(), "none") if result == -1 else f"returned {result}"
"""


async def test_dangerous_system_calls_are_refused(attack: Attack) -> None:
    answers = await attack(SYSTEM_CALLS)
    assert {name: answer for name, answer in answers.items() if answer not in ("ENOSYS", "EPERM")} == {}


async def test_unusual_sockets_and_terminal_injection_are_refused(attack: Attack) -> None:
    code = """
import fcntl
answer = []
for family, kind in ((40, 1), (16, 3), (17, 3), (31, 1), (38, 5), (2, 3), (10, 3), (2, 5)):
    try:
        socket.socket(family, kind).close(); answer.append([family, kind])
    except OSError: pass
main, side = os.openpty()
try:
    fcntl.ioctl(side, 0x5412, b"x"); answer.append("TIOCSTI")
except OSError: pass
"""
    assert await attack(code) == []


async def test_privileges_cannot_be_gained(attack: Attack) -> None:
    code = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
answer = [status[key].strip() for key in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")]
try: os.setuid(0); answer.append("root")
except OSError: pass
"""
    assert await attack(code) == ["0" * 16, "0" * 16, "0" * 16, "1", "2"]


# --- life cycle -------------------------------------------------------------------------------------------------------


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
    await asyncio.to_thread(wait_until, lambda: processes_with(marker))
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

    answers = await asyncio.gather(*(one(number) for number in range(32)))
    assert answers == [f"{number}/workspace\n" for number in range(32)]


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
