"""The system-call filter, run by a small BPF machine for both instruction sets, and its tables against the kernel's."""

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.sandboxes import _seccomp
from environments.sandboxes._syscalls import allowed_numbers

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE, SOCKET, IOCTL = {"x86_64": 56, "aarch64": 220}, {"x86_64": 41, "aarch64": 198}, {"x86_64": 16, "aarch64": 29}
both = pytest.mark.parametrize("machine", _seccomp.machines())


def answer(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter returns for one call."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *words)
    code = list(struct.iter_unpack("<HBBI", _seccomp.program(machine)))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x06:
                return value
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
                at += if_true if holds[operation] else if_false
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


@both
def test_exactly_the_listed_calls_pass(machine: str) -> None:
    conditional = {
        CLONE[machine],
        SOCKET[machine],
        IOCTL[machine],
        SOCKET[machine] + (12 if machine == "x86_64" else 1),
    }
    passing = {number for number in range(1200) if answer(machine, number) == ALLOW}
    assert passing - conditional == allowed_numbers(machine)


@given(st.integers(0, 2**32 - 1))
def test_no_number_beyond_the_table_passes(number: int) -> None:
    for machine in _seccomp.machines():
        assert (answer(machine, number) == ALLOW) <= (number < 500)


@both
def test_a_foreign_instruction_set_is_killed_and_x32_unknown(machine: str) -> None:
    assert answer(machine, 0, arch=0x40000003) == KILL  # i386
    assert answer(machine, 0x40000000) == ERRNO | errno.ENOSYS


@both
@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_threads_and_processes_but_no_namespaces(machine: str, flag: int) -> None:
    threads, fork = 0x3D0F00, 0x1200011
    assert answer(machine, CLONE[machine], threads) == ALLOW
    assert answer(machine, CLONE[machine], fork) == ALLOW
    assert answer(machine, CLONE[machine], fork | flag) == ERRNO | errno.EPERM
    assert answer(machine, CLONE[machine], flag | 1 << 40) == ERRNO | errno.EPERM


@both
@given(family=st.integers(0, 50), kind=st.integers(0, 10), flags=st.sampled_from([0, 0o4000, 0o2000000]))
def test_sockets_are_local_or_internet_streams_and_datagrams(machine: str, family: int, kind: int, flags: int) -> None:
    expected = family in (1, 2, 10) and kind in (1, 2)
    assert (answer(machine, SOCKET[machine], family, kind | flags) == ALLOW) is expected


@both
def test_only_terminal_injection_is_taken_from_ioctl(machine: str) -> None:
    assert answer(machine, IOCTL[machine], 0, 0x5401) == ALLOW
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
        assert answer(machine, IOCTL[machine], 0, request) == ERRNO | errno.EPERM


@both
def test_the_program_fits_the_kernels_limit_and_jumps_stay_inside(machine: str) -> None:
    code = list(struct.iter_unpack("<HBBI", _seccomp.program(machine)))
    assert len(code) <= 4096
    assert code[-1][0] == 0x06
    jumps = [(at, max(to)) for at, (operation, *to, _) in enumerate(code) if operation in (0x15, 0x35, 0x45)]
    assert all(at + 1 + far < len(code) for at, far in jumps)


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@both
def test_numbers_are_the_kernels(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    kernel = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    # The generic header has these under the names of their 32-bit forms.
    aliases = {"newfstatat": "fstatat", "fadvise64": "fadvise64"}
    table = re.findall(r"(\w+)=([\d/]+)", Path(str(_seccomp.__file__).replace("_seccomp", "_syscalls")).read_text())
    column = list(ARCH).index(machine)
    for name, numbers in table:
        values = numbers.split("/")
        if len(values) > column:
            assert kernel.get(name, kernel.get(aliases.get(name, ""))) == values[column], name


@both
@pytest.mark.parametrize(
    ("protocol", "expected"), [(0, True), (6, True), (17, True), (1, False), (136, False), (262, False)]
)
def test_only_the_usual_protocols_are_spoken(machine: str, protocol: int, expected: bool) -> None:
    assert (answer(machine, SOCKET[machine], 2, 1, protocol) == ALLOW) is expected
    assert (answer(machine, SOCKET[machine] + (12 if machine == "x86_64" else 1), 1, 1, protocol) == ALLOW) is expected
