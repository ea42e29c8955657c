"""Terminals and settings of the kernel: typing for others, opening what belongs to root."""

import pytest

from environments.sandboxes.base import Sandbox
from tests.environments.sandboxes.attacks.programs import CALLS, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, Attack

INJECT = """
import fcntl
main, side = os.openpty()
if os.fork() == 0:
    os.setsid(); fcntl.ioctl(side, 0x540E, 0)
    typed = ctypes.create_string_buffer(b"x")
    os.write(main, call((16, 29), side, REQUEST, ctypes.addressof(typed)).encode().ljust(20))
    os._exit(0)
os.wait()
os.set_blocking(side, False)
import termios
attributes = termios.tcgetattr(side); attributes[3] &= ~termios.ICANON; termios.tcsetattr(side, 0, attributes)
answer = os.read(side, 100).decode().split()[-1]
"""


@pytest.mark.parametrize("request_", ["0x5412", "0x5412 | 1 << 32", "0x541C"], ids=["typing", "high bits", "console"])
async def test_nothing_can_be_typed_into_a_terminal(attack: Attack, request_: str) -> None:
    """TIOCSTI and TIOCLINUX; newer kernels refuse the first one themselves (EIO), and a pseudo terminal the second."""
    code = CALLS + INJECT.replace("REQUEST", request_)
    assert weaker(code, without=["--seccomp"]) in {"xworked", "worked", "EIO", "EINVAL", "ENOTTY"}
    assert await attack(code) == "EPERM"


TERMINAL = "answer = attempt(open, '/dev/tty')"
OWN_TERMINAL = """
import fcntl
main, side = os.openpty()
def own_terminal(): fcntl.ioctl(side, 0x540E, 0)
plain = subprocess.Popen
class Popen(plain):
    def __init__(self, *words, preexec_fn=None, pass_fds=(), **options):
        def both(): preexec_fn(); own_terminal()
        super().__init__(*words, preexec_fn=both, pass_fds=(*pass_fds, side), **options)
subprocess.Popen = Popen
"""


async def test_the_terminal_of_whoever_started_it_is_out_of_reach(attack: Attack) -> None:
    assert weaker(CALLS + TERMINAL, without=["--new-session"], machine=OWN_TERMINAL) == "worked"
    assert await attack(CALLS + TERMINAL) == "ENXIO"


SYSCTL = "answer = attempt(lambda: os.close(os.open(facts['path'], os.O_RDWR)))"
OWNED_BY_ROOT = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/fs/mqueue/msg_max",
    "/proc/sysrq-trigger",
    "/proc/kcore",
    "/proc/kmsg",
)


@pytest.mark.parametrize("path", OWNED_BY_ROOT)
async def test_settings_of_the_kernel_cannot_be_opened_for_writing(attack: Attack, path: str) -> None:
    """These belong to root by user id, capabilities or not; the control shows that rule with a setting of a namespace.

    Showing it with the machine's own settings would take the machine's own root.
    """
    control = weaker(CALLS + SYSCTL, without=["--ro-bind /proc/sys"], facts={"path": "/proc/sys/fs/mqueue/msg_max"})
    if control in {"ENOENT", "EACCES"}:
        pytest.skip("this kernel has no setting that belongs to a namespace's root by user id")
    assert control == "worked"
    assert await attack(told(CALLS + SYSCTL, path=path)) in {"EROFS", "EACCES", "ENOENT", "EPERM"}


async def test_addresses_of_the_kernel_are_not_told(sandbox: Sandbox) -> None:
    """Only real root sees them, so there is no control; what is shown is that all are zero or hidden."""
    code = "lines = open('/proc/kallsyms').readlines() if os.path.exists('/proc/kallsyms') else []\n"
    code += "print(len([line for line in lines if set(line.split()[0]) != {'0'}]))"
    result = await sandbox.exec(["python3", "-I", "-S", "-c", GUARD + code])
    assert result.stdout == "0\n"
