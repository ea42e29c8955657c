"""The kernel's Landlock and seccomp from Python: what a process gives up for itself and all its children.

Nothing here needs rights; everything needs no_new_privs. Every function raises OSError with what was attempted.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

from environments.sandboxes import _seccomp

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TCP = 3  # bind and connect
_SCOPES = 3  # abstract unix sockets and signals, to processes outside

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The kernel's version of Landlock; 0 where there is none. 6 keeps signals inside."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    return max(0, version)


class Ruleset:
    """Which files stay reachable: everything not named is refused. Made before, applied in the child."""

    def __init__(self, readable: Sequence[str], writable: Sequence[str], devices: Sequence[str]) -> None:
        version = abi()
        self._handled = _file_rights(version)
        scopes = struct.pack("=Q", _SCOPES) if version >= 6 else b""
        tcp = struct.pack("=Q", _TCP) if version >= 4 else b""
        attributes = struct.pack("=Q", self._handled) + tcp + scopes
        self._fd = _checked(_syscall(_CREATE_RULESET, attributes, len(attributes), 0), "create a Landlock ruleset")
        for path in readable:
            self._allow(path, READ)
        for path in writable:
            self._allow(path, ~(_MAKE_CHAR | _MAKE_BLOCK))
        for path in devices:
            self._allow(path, _READ_FILE | _WRITE_FILE)

    def apply(self) -> None:
        """This process and its children keep to the rules for good."""
        _checked(_syscall(_RESTRICT_SELF, self._fd, 0, 0), "apply the Landlock ruleset")

    def _allow(self, path: str, rights: int) -> None:
        if not os.path.exists(path):
            return
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights &= self._handled & (-1 if os.path.isdir(path) else _ON_FILES)
            rule = struct.pack("=Qi", rights, folder)
            _checked(_syscall(_ADD_RULE, self._fd, _PATH_BENEATH, rule, 0), f"allow {path}")
        finally:
            os.close(folder)


def filter_system_calls() -> None:
    """Install Assay's system-call filter, with sockets to other machines refused as well."""
    code = _seccomp.program(platform.machine(), families=_seccomp.LOCAL)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    result = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)
    _checked(result, "install the system-call filter")


def _file_rights(version: int) -> int:
    """All rights this version knows: 13 at first, then moving between folders, truncating, device ioctls."""
    return (1 << min(16, {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16))) - 1


def _syscall(number: int, *arguments: bytes | int) -> int:
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *words))


def _checked(result: int, action: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Cannot {action}: {os.strerror(number)}")
    return result
