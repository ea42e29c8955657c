"""Pieces of attack code that several files use, and the groups of flags that one defence consists of."""

from typing import Any

# Without these the attacker is the same user in the same user namespace as its victims.
USER = ("--unshare-user", "--uid", "--gid", "--disable-userns")
# Without these it has every capability over the namespaces of its sandbox.
PRIVILEGES = ("--cap-drop", "--disable-userns", "--uid", "--gid")
WITH_PRIVILEGES = ("--cap-add", "ALL")

CALLS = """
import ctypes, errno, platform, signal, struct, time
libc = ctypes.CDLL(None, use_errno=True)
def call(numbers, *arguments):
    "What a system call answers: 'worked' or the name of its error; `numbers` are those on x86_64 and aarch64."
    result = raw(numbers, *arguments)
    return "worked" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def raw(numbers, *arguments):
    number = numbers[{"x86_64": 0, "aarch64": 1}[platform.machine()]]
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    return libc.syscall(ctypes.c_long(number), *words)
def attempt(action, *arguments):
    try: action(*arguments)
    except OSError as error: return errno.errorcode[error.errno]
    return "worked"
"""


def told(code: str, **facts: Any) -> str:
    """The attack `code`, with what it is told about its target."""
    return f"facts = {facts!r}\n{code}"
