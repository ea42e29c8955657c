"""What is not there: files, processes and networks of this machine and of other sandboxes."""

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments.sandboxes.base import Backend, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import (
    Attack,
    needs,
    processes_with,
    wait_until,
)


async def test_files_of_this_machine_cannot_be_read(attack: Attack, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    code = f"""
answer = []
for path in ({str(tmp_path / "secret")!r}, {__file__!r}, "/etc/shadow", "/dev/mem", "/dev/kmsg"):
    try:
        if open(path).read(): answer.append(path)
    except OSError: pass
for folder in ({str(tmp_path)!r}, "/root", {str(Path.home())!r}):
    try:
        if os.listdir(folder): answer.append(folder)
    except OSError: pass
"""
    assert await attack(code) == []


@needs("own_root")
async def test_the_hosts_files_are_not_there(attack: Attack, tmp_path: Path) -> None:
    hidden = [str(tmp_path), str(Path(__file__).parent), "/dev/mem", "/dev/kmsg", "/dev/kvm"]
    assert await attack(f"answer = [path for path in {hidden!r} if os.path.exists(path)]") == []


@needs("own_root", "filtered")
async def test_of_the_system_only_programs_are_there(attack: Attack) -> None:
    hidden = [
        str(Path.home()),
        "/root",
        "/home",
        "/var",
        "/boot",
        "/sys",
        "/etc/shadow",
        "/etc/hostname",
        "/run",
        "/mnt",
    ]
    hidden += ["/srv", "/dev/fuse"]
    assert await attack(f"answer = [path for path in {hidden!r} if os.path.exists(path)]") == []


@needs("own_root")
async def test_other_sandboxes_are_not_there(backend: Backend, attack: Attack) -> None:
    other = await backend.create(SandboxSpec(files={"answer-key": "hunter2"}))
    code = """
answer = []
for folder, folders, files in os.walk("/"):
    skipped = {("/", "proc"), ("/", "usr"), ("/", "opt"), ("/", "sys")}
    folders[:] = [name for name in folders if (folder, name) not in skipped]
    answer += [name for name in files if name == "answer-key"]
"""
    assert await attack(code) == []
    await other.destroy()


@needs("own_root")
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


@needs("unseen")
async def test_only_own_processes_are_visible(attack: Attack) -> None:
    pids = await attack("answer = [int(name) for name in os.listdir('/proc') if name.isdigit()]")
    assert len(pids) <= 3
    assert max(pids) < 20


@needs("own_root")
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


@needs("own_root")
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


@needs("loopback")
async def test_programs_inside_may_talk_to_each_other_over_loopback(attack: Attack) -> None:
    code = """
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    accepted, _ = server.accept(); client.send(b"x"); answer = accepted.recv(1).decode()
"""
    assert await attack(code) == "x"


@needs("local")
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
