"""The system-call filter of the sandbox as a classic BPF program, assembled by hand so that nothing need be installed.

An allow-list: calls in `_syscalls` pass, a few depend on their arguments, the rest answers ENOSYS as an older kernel
would, so programs fall back instead of crashing. A foreign instruction set (int 0x80, x32) is killed or refused.
"""

import errno
import struct

from environments.sandboxes._syscalls import allowed_numbers

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JEQ, _JGE, _JSET = 0x15, 0x35, 0x45
_NR_OFFSET, _ARCH_OFFSET, _ARGS_OFFSET = 0, 4, 16

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CONDITIONAL = {
    "x86_64": {"clone": 56, "socket": 41, "socketpair": 53, "ioctl": 16},
    "aarch64": {"clone": 220, "socket": 198, "socketpair": 199, "ioctl": 29},
}
_NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
LOCAL = (1,)  # unix
FAMILIES = (*LOCAL, 2, 10)  # and inet, inet6: no vsock, packet, netlink, bluetooth ...
_PROTOCOLS = (0, 6, 17)  # the usual one, TCP, UDP: no ICMP, MPTCP, UDP-Lite ...
_TYPES = (1, 2)  # stream, datagram: no raw, seqpacket (sctp) ...

Instruction = tuple[int, int, int, int]


def machines() -> tuple[str, ...]:
    """The machines a filter exists for, as `platform.machine()` names them."""
    return tuple(_AUDIT_ARCH)


def program(machine: str, families: tuple[int, ...] = FAMILIES) -> bytes:
    """The filter for `machine`, in the form `bwrap --seccomp` reads: an array of `struct sock_filter`.

    `families` are the address families of sockets that may be made: LOCAL where nothing else keeps the network away.
    Raises KeyError for a machine that is not in `machines()`.
    """
    calls = _CONDITIONAL[machine]
    code = [_load(_ARCH_OFFSET), (_JEQ, 1, 0, _AUDIT_ARCH[machine]), _return(_KILL), _load(_NR_OFFSET)]
    code += _block(calls["clone"], _forbid_bits(0, _NAMESPACE_FLAGS))
    code += _block(calls["socket"], _socket(families))
    code += _block(calls["socketpair"], _socket(families))
    code += _block(calls["ioctl"], _forbid_values(1, _TERMINAL_INJECTION))
    code += _allow_list(allowed_numbers(machine))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _refuse(number: int) -> Instruction:
    return _return(_ERRNO | number)


def _argument(index: int) -> Instruction:
    # The low word: all these arguments are 32 bits wide, and the kernel drops the upper half as well.
    return _load(_ARGS_OFFSET + 8 * index)


def _block(number: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, which must end in a return, for one call; other calls jump over it."""
    return [(_JEQ, 0, len(body), number), *body]


def _forbid_bits(argument: int, bits: int) -> list[Instruction]:
    return [_argument(argument), (_JSET, 0, 1, bits), _refuse(errno.EPERM), _return(_ALLOW)]


def _forbid_values(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    checks = [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(argument), *checks, _return(_ALLOW), _refuse(errno.EPERM)]


def _require_values(argument: int, mask: int, values: tuple[int, ...], number: int) -> list[Instruction]:
    """Falls through when the masked argument is one of `values`, else refuses with `number`."""
    checks = [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(argument), (_AND, 0, 0, mask), *checks, _refuse(number)]


def _socket(families: tuple[int, ...]) -> list[Instruction]:
    family = _require_values(0, 0xFFFFFFFF, families, errno.EAFNOSUPPORT)
    kind = _require_values(1, 0xF, _TYPES, errno.EPERM)
    protocol = _require_values(2, 0xFFFFFFFF, _PROTOCOLS, errno.EPROTONOSUPPORT)
    return [*family, *kind, *protocol, _return(_ALLOW)]


def _allow_list(numbers: frozenset[int]) -> list[Instruction]:
    """Walk up the borders between allowed and refused stretches; below a border the stretch's action returns."""
    borders = sorted({n for n in numbers if n - 1 not in numbers} | {n + 1 for n in numbers if n + 1 not in numbers})
    code: list[Instruction] = []
    for border in borders:
        action = _return(_ALLOW) if border - 1 in numbers else _refuse(errno.ENOSYS)
        code += [(_JGE, 1, 0, border), action]
    return [*code, _refuse(errno.ENOSYS)]
