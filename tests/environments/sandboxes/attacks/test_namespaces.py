"""Namespaces and mounts: new ones with new rights, those of the machine, privileges in the own ones."""

import pytest

from tests.environments.sandboxes.attacks.programs import CALLS, PRIVILEGES, USER, WITH_PRIVILEGES
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import Attack

NEW_USER = {
    "unshare": "answer = call((272, 97), 0x10000000)",
    "clone": "answer = cloned((56, 220), 0x10000011, 0, 0, 0, 0)",
    "clone, high bits set": "answer = cloned((56, 220), 0x10000011 | 1 << 40, 0, 0, 0, 0)",
    "clone3": """
block = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0))
answer = cloned((435, 435), ctypes.addressof(block), 64)
""",
}
CLONED = """
def cloned(numbers, *arguments):
    child = raw(numbers, *arguments)
    if child == 0: os._exit(0)
    return "worked" if child > 0 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.mark.parametrize("way", NEW_USER)
async def test_no_user_namespace_can_be_made(attack: Attack, way: str) -> None:
    code = CALLS + CLONED + NEW_USER[way]
    assert weaker(code, without=["--seccomp", "--disable-userns"]) == "worked"
    assert weaker(code, without=["--seccomp"]) == "ENOSPC"  # two defences, each enough
    assert await attack(code) in {"EPERM", "ENOSYS"}


NEW_RIGHTS = "assert {first}\nos.makedirs('/tmp/new', exist_ok=True)\nanswer = {action}"
WITH_A_NEW_USER = "call((272, 97), 0x12020000) == 'worked'"  # user, mount and cgroup namespace
MOUNTS = {
    "tmpfs": "call((165, 40), b'none', b'/tmp/new', b'tmpfs', 0, 0)",
    "bind": "call((165, 40), b'/usr', b'/tmp/new', 0, 4096, 0)",
    "cgroup with release_agent": "call((165, 40), b'none', b'/tmp/new', b'cgroup', 0, b'memory')",
    "cgroup2": "call((165, 40), b'none', b'/tmp/new', b'cgroup2', 0, 0)",
    "umount": "call((166, 39), b'/tmp', 2)",
    "chroot": "call((161, 51), b'/tmp/new')",
    "fsopen": "call((430, 430), b'tmpfs', 0)",
    "open_tree": "call((428, 428), -100, b'/usr', 1)",
}


@pytest.mark.parametrize("way", MOUNTS)
async def test_nothing_can_be_mounted_with_the_rights_of_a_new_user_namespace(attack: Attack, way: str) -> None:
    """An unmount reaches only what was mounted since, so there the control shows the kernel's own answer."""
    code = CALLS + NEW_RIGHTS.format(first=WITH_A_NEW_USER, action=MOUNTS[way])
    control = weaker(code, without=["--seccomp", "--disable-userns"])
    if way.startswith("cgroup") and control in {"EPERM", "ENODEV", "EINVAL", "EBUSY"}:
        pytest.skip(f"this kernel mounts no such control groups ({control})")
    assert control == ("EINVAL" if way == "umount" else "worked")
    assert await attack(CALLS + NEW_RIGHTS.format(first="True", action=MOUNTS[way])) == "ENOSYS"


PRIVILEGED = {
    "mount": "call((165, 40), b'none', b'/tmp', b'tmpfs', 0, 0)",
    "remount root": "call((165, 40), b'none', b'/', 0, 32 | 4096, 0)",
    "pivot_root": "(call((165, 40), b'/tmp', b'/tmp', 0, 4096, 0), os.chdir('/tmp'), call((155, 41), b'.', b'.'))[2]",
    "chroot": "call((161, 51), b'/tmp')",
    "hostname": "call((170, 161), b'evil', 4)",
    "raw packets": "attempt(socket.socket, 17, 3, 0)",
    "set loopback down": "down()",
}
DOWN = """
import fcntl
def down():
    with socket.socket() as any_socket: return attempt(fcntl.ioctl, any_socket, 0x8914, struct.pack("16sH", b"lo", 0))
"""


@pytest.mark.parametrize("way", PRIVILEGED)
async def test_no_privilege_is_left_inside(attack: Attack, way: str) -> None:
    code = f"{CALLS}{DOWN}answer = {PRIVILEGED[way]}"
    assert weaker(code, without=["--seccomp", *PRIVILEGES], plus=WITH_PRIVILEGES) == "worked"
    assert await attack(code) in {"EPERM", "ENOSYS", "EAFNOSUPPORT"}


UTS = "answer = call((170, 161), b'evil', 4)"


async def test_the_machine_is_not_renamed(attack: Attack) -> None:
    control = weaker(
        CALLS + UTS,
        without=["--seccomp", "--unshare-uts", "--hostname", "--cap-drop", *USER],
        plus=WITH_PRIVILEGES,
        afterwards="answer = socket.gethostname()",
    )
    assert control == "evil"
    assert await attack(CALLS + UTS) == "ENOSYS"
    assert await attack("answer = socket.gethostname()") == "sandbox"


ENTER = {
    "by descriptor of a process": "answer = call((308, 268), os.pidfd_open(pid), 0x04000000)",
    "by file": "answer = call((308, 268), os.open(f'/proc/{pid}/ns/net', os.O_RDONLY), 0x40000000)",
}


@pytest.mark.parametrize("way", ENTER)
async def test_the_machines_namespaces_cannot_be_entered(attack: Attack, way: str) -> None:
    code = f"{CALLS}pid = facts['pid']\n{ENTER[way]}"
    control = weaker(
        code,
        without=["--seccomp", "--unshare-pid", "--cap-drop", *USER],
        plus=WITH_PRIVILEGES,
        machine="facts['pid'] = victim()",
    )
    assert control == "worked"
    # Inside, process 1 is the only one that is not the attacker's own.
    assert await attack(f"facts = {{'pid': 1}}\n{code}") == "ENOSYS"
