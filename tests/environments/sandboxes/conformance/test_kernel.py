"""What the kernel refuses a command: dangerous calls, unusual sockets, privileges."""

from tests.environments.sandboxes.probing import Attack, needs

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


@needs("filtered")
async def test_dangerous_system_calls_are_refused(attack: Attack) -> None:
    answers = await attack(SYSTEM_CALLS)
    assert {name: answer for name, answer in answers.items() if answer not in ("ENOSYS", "EPERM")} == {}


@needs("filtered")
async def test_unusual_sockets_and_terminal_injection_are_refused(attack: Attack) -> None:
    code = """
import fcntl
answer = []
for family, kind in ((40, 1), (16, 3), (17, 3), (31, 1), (38, 5), (2, 3), (10, 3), (2, 5)):
    try:
        socket.socket(family, kind).close(); answer.append([family, kind])
    except OSError: pass
try:
    main, side = os.openpty()
    fcntl.ioctl(side, 0x5412, b"x"); answer.append("TIOCSTI")
except OSError: pass
"""
    assert await attack(code) == []


async def test_privileges_cannot_be_gained(attack: Attack) -> None:
    code = """
answer = [ctypes.CDLL(None).prctl(39, 0, 0, 0, 0)]  # PR_GET_NO_NEW_PRIVS
try: os.setuid(0); answer.append("root")
except OSError: pass
"""
    assert await attack(code) == [1]


@needs("own_root")
async def test_there_is_no_capability_to_use(attack: Attack) -> None:
    code = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
answer = [status[key].strip() for key in ("CapEff", "CapPrm", "CapBnd")]
"""
    assert await attack(code) == ["0" * 16] * 3


@needs("filtered")
async def test_system_calls_are_filtered(attack: Attack) -> None:
    assert await attack("answer = ctypes.CDLL(None).prctl(21, 0, 0, 0, 0)") == 2  # PR_GET_SECCOMP
