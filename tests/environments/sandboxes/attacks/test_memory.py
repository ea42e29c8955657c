"""Memory: taken by one process, by many, and where limits of single processes do not count it."""

import errno
from dataclasses import replace

import pytest

from environments.sandboxes.base import Limits, SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import CALLS, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, Attack, run_attack

MIB = 1 << 20
SMALL = replace(Limits(), memory_bytes=96 * MIB, disk_bytes=MIB)

ONE = """
try: block = bytearray(200 << 20); answer = "taken"
except MemoryError: answer = "refused"
"""


async def test_one_process_does_not_take_more_than_allowed(backend: Bubblewrap) -> None:
    assert weaker(ONE, unlimited=["memory"]) == "taken"
    sandbox = await backend.create(SandboxSpec(limits=SMALL))
    assert await run_attack(sandbox, ONE) == "refused"
    await sandbox.destroy()


MANY = """
import signal, time
reader, writer = os.pipe()
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        try: block = bytearray(b"x") * (50 << 20); os.write(writer, b"x")
        except MemoryError: pass
        time.sleep(20); os._exit(0)
    children.append(child)
time.sleep(1)
os.set_blocking(reader, False)
try: held = len(os.read(reader, 10))
except OSError: held = 0
def alive(child):
    return os.waitpid(child, os.WNOHANG)[0] == 0
answer = min(held, sum(map(alive, children)))
"""


async def test_many_processes_do_not_take_more_than_allowed_together(backend: Bubblewrap) -> None:
    """Six times 50 MiB; each alone is allowed. Where no group counts memory, the whole sandbox is ended."""
    assert weaker(MANY) == 6
    sandbox = await backend.create(SandboxSpec(limits=SMALL))
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"{GUARD}{MANY}\nprint(answer)"])
    assert result.signal == 9 or int(result.stdout) <= 2
    assert (await sandbox.exec(["echo", "again"])).stdout == "again\n"
    await sandbox.destroy()


UNCOUNTED = {
    "memory files": """
import mmap
answer = 0
for _ in range(10):
    file = raw((319, 279), b"x", 0)
    if file < 0: break
    answer += os.write(file, bytes(8 << 20))
""",
    "System V shared memory": """
libc.shmat.restype = ctypes.c_void_p
answer = 0
for _ in range(5):
    segment = raw((29, 194), 0, 16 << 20, 0o1600)
    if segment < 0: break
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 16 << 20)
    libc.shmdt(ctypes.c_void_p(address)); answer += 16 << 20
""",
    "message queues": """
libc.msgsnd.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
answer = 0
for _ in range(50):
    queue = raw((68, 186), 0, 0o1600)
    if queue < 0: break
    while libc.msgsnd(queue, struct.pack("q", 1) + bytes(8000), 8000, 0o4000) == 0: answer += 8000
""",
}


@pytest.mark.parametrize("kind", UNCOUNTED)
async def test_memory_that_no_process_owns_cannot_be_taken(attack: Attack, kind: str) -> None:
    code = CALLS + UNCOUNTED[kind]
    assert weaker(code, without=["--seccomp"]) >= 200_000
    assert await attack(code) == 0


SHARED = """
answer = 0
try:
    for number in range(60):
        with open(f"/dev/shm/{number}", "wb", buffering=0) as file: answer += file.write(bytes(1 << 20))
except OSError as error: assert error.errno == facts["full"]
"""


async def test_posix_shared_memory_is_part_of_the_disk(backend: Bubblewrap) -> None:
    facts = {"full": errno.ENOSPC}
    control = weaker(SHARED, plus=["--bind", "/srv/tmp", "/dev/shm"], facts=facts)
    assert control == 60 * MIB
    sandbox = await backend.create(SandboxSpec(limits=replace(Limits(), disk_bytes=4 * MIB)))
    assert await run_attack(sandbox, told(SHARED, **facts)) <= 4 * MIB
    await sandbox.destroy()


KERNEL_BUFFERS = """
import fcntl, resource
pairs, answer = [], 0
try:
    for _ in range(110):
        reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        pairs.append((reader, writer))
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        writer.setblocking(False)
        try:
            while True: answer += writer.send(bytes(30_000))
        except BlockingIOError: pass
except OSError: pass
"""


async def test_buffers_in_the_kernel_are_bounded(backend: Bubblewrap) -> None:
    """By the number of open files everywhere, and by the sandbox's memory where groups count that of the kernel."""
    control = weaker(KERNEL_BUFFERS)
    assert control > 10 * MIB
    sandbox = await backend.create(SandboxSpec(limits=replace(SMALL, max_open_files=16)))
    assert await run_attack(sandbox, KERNEL_BUFFERS) < control / 4
    await sandbox.destroy()


RAISE = """
import resource
answer = []
for kind in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE,
             resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    _, hard = resource.getrlimit(kind)
    wanted = 1 << 40 if hard == resource.RLIM_INFINITY else hard + 1
    try: resource.setrlimit(kind, (wanted, wanted)); answer.append(kind)
    except (OSError, ValueError): pass
"""


async def test_limits_cannot_be_raised(attack: Attack) -> None:
    """The control has no limit yet for two of the kinds, which it may therefore set as it likes."""
    assert len(weaker(RAISE, unlimited=["memory", "cpu"])) == 2
    assert await attack(RAISE) == []
