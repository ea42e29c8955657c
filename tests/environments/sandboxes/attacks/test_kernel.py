"""System calls that widen what of the kernel can be attacked: none of them gets there."""

import functools
import platform

import pytest

from tests.environments.sandboxes.attacks.programs import CALLS
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import Attack

# Numbers on x86_64 and aarch64, then arguments that do no harm: what counts is whether the kernel looks at them.
REFUSED: dict[str, tuple[object, ...]] = {
    "ptrace": ((101, 117), 0, 0, 0, 0),
    "process_vm_readv": ((310, 270), 1, 0, 0, 0, 0, 0),
    "process_vm_writev": ((311, 271), 1, 0, 0, 0, 0, 0),
    "process_madvise": ((440, 440), -1, 0, 0, 0, 0),
    "process_mrelease": ((448, 448), -1, 0),
    "pidfd_getfd": ((438, 438), -1, 0, 0),
    "kcmp": ((312, 272), 1, 1, 0, 0, 0),
    "move_pages": ((279, 239), 1, 0, 0, 0, 0, 0),
    "migrate_pages": ((256, 238), 1, 0, 0, 0),
    "mbind": ((237, 235), 0, 0, 0, 0, 0, 0),
    "add_key": ((248, 217), b"user", b"a", b"b", 1, -2),
    "request_key": ((249, 218), b"user", b"a", 0, 0),
    "keyctl": ((250, 219), 0, -3, 1, 0, 0),
    "io_uring_setup": ((425, 425), 1, 0),
    "io_uring_enter": ((426, 426), -1, 0, 0, 0, 0, 0),
    "io_uring_register": ((427, 427), -1, 0, 0, 0),
    "bpf": ((321, 280), 0, 0, 0),
    "userfaultfd": ((323, 282), 1),
    "perf_event_open": ((298, 241), 0, 0, -1, -1, 0),
    "name_to_handle_at": ((303, 264), -100, b"/", 0, 0, 0),
    "open_by_handle_at": ((304, 265), -100, 0, 0),
    "fanotify_init": ((300, 262), 0, 0),
    "mount": ((165, 40), 0, 0, 0, 0, 0),
    "umount2": ((166, 39), 0, 0),
    "pivot_root": ((155, 41), 0, 0),
    "chroot": ((161, 51), 0),
    "open_tree": ((428, 428), -100, b"/", 0),
    "move_mount": ((429, 429), -1, 0, -1, 0, 0),
    "fsopen": ((430, 430), 0, 0),
    "fsconfig": ((431, 431), -1, 0, 0, 0, 0),
    "fsmount": ((432, 432), -1, 0, 0),
    "fspick": ((433, 433), -1, 0, 0),
    "mount_setattr": ((442, 442), -1, 0, 0, 0, 0),
    "statmount": ((457, 457), 0, 0, 0, 0),
    "unshare files": ((272, 97), 0x400),
    "setns": ((308, 268), -1, 0),
    "clone3": ((435, 435), 0, 0),
    "memfd_create": ((319, 279), b"x", 0),
    "memfd_secret": ((447, 447), 0),
    "shmget": ((29, 194), 0, 4096, 0o1600),
    "msgget": ((68, 186), 0, 0o1600),
    "semget": ((64, 190), 0, 1, 0o1600),
    "mq_open": ((240, 180), 0, 0, 0, 0),
    "syslog": ((103, 116), 10, 0, 0),
    "acct": ((163, 89), 0),
    "quotactl": ((179, 60), 0, 0, 0, 0),
    "swapon": ((167, 224), 0, 0),
    "swapoff": ((168, 225), 0),
    "reboot": ((169, 142), 0, 0, 0, 0),
    "init_module": ((175, 105), 0, 0, 0),
    "finit_module": ((313, 273), -1, 0, 0),
    "delete_module": ((176, 106), 0, 0),
    "kexec_load": ((246, 104), 0, 0, 0, 0),
    "clock_settime": ((227, 112), 0, 0),
    "settimeofday": ((164, 170), 0, 1),
    "adjtimex": ((159, 171), 0),
    "clock_adjtime": ((305, 266), 0, 0),
    "sethostname": ((170, 161), 0, 0),
    "setdomainname": ((171, 162), 0, 0),
    "vhangup": ((153, 58),),
    "personality without address randomisation": ((135, 92), 0x40000),
    "landlock_create_ruleset": ((444, 444), 0, 0, 1),
    "seccomp": ((317, 277), 2, 0, 0),
    "lsm_list_modules": ((461, 461), 0, 0, 0),
}
X86_ONLY = {
    "modify_ldt": ((154,), 0, 0, 0),
    "iopl": ((172,), 3),
    "ioperm": ((173,), 0, 1, 1),
    "sysfs": ((139,), 3),
    "ustat": ((136,), 0, 0),
    "uselib": ((134,), 0),
}
KNOWN = {**REFUSED, **(X86_ONLY if platform.machine() == "x86_64" else {})}
# Each in a process of its own, for some change the caller.
ALL = f"""
answer = {{}}
for name, (numbers, *arguments) in {KNOWN!r}.items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, call(numbers, *arguments).encode()); os._exit(0)
    os.close(writer); answer[name] = os.read(reader, 100).decode(); os.close(reader); os.wait()
"""


@functools.cache
def reached() -> dict[str, str]:
    """What the kernel itself answers."""
    return weaker(CALLS + ALL, without=["--seccomp"])


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What is answered inside, once asked."""
    return {}


@pytest.mark.parametrize("name", KNOWN)
async def test_a_system_call_nobody_needs_does_not_reach_the_kernel(
    attack: Attack, answers: dict[str, str], name: str
) -> None:
    control = reached()[name]
    if not answers:
        answers.update(await attack(CALLS + ALL))
    assert answers[name] == "ENOSYS"
    if control == "ENOSYS":
        pytest.skip(f"held, but this kernel has no {name}, so there is no control")


def machine_code(code: str) -> str:
    """Attack code that runs x86 instructions (hex) in a child; its answer is the result, or minus the fatal signal."""
    return f"""
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("{code}"))
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    run = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    os.write(writer, str(run()).encode()); os._exit(0)
os.close(writer)
said = os.read(reader, 40)
_, status = os.waitpid(child, 0)
answer = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else int(said)
"""


only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has other instruction sets' calls")


@only_x86
async def test_a_call_by_the_32_bit_door_is_fatal(attack: Attack) -> None:
    code = machine_code("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
    control = weaker(code, without=["--seccomp"])
    if control < 0:
        pytest.skip("this kernel runs no 32-bit programs")
    assert control > 0
    assert await attack(code) == -31  # SIGSYS


@only_x86
async def test_a_call_by_the_x32_numbers_is_refused(attack: Attack) -> None:
    code = CALLS + "answer = call((0x40000000 + 39,))"
    control = weaker(code, without=["--seccomp"])
    held = await attack(code)
    assert held == "ENOSYS"
    if control == "ENOSYS":
        pytest.skip("held, but this kernel has no x32 calls, so there is no control")
    assert control == "worked"
