"""Devices, the kernel's control files, and programs that run as somebody else."""

import os
import secrets
import subprocess
from pathlib import Path

import pytest

from tests.environments.sandboxes.attacks.programs import CALLS
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import Attack

DEVICES = """
answer = []
for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "vhost-net", "net/tun", "loop0", "sda", "vda", "nvme0n1"):
    try: os.close(os.open(f"/dev/{name}", os.O_RDONLY)); answer.append(name)
    except OSError: pass
"""


async def test_devices_of_the_machine_are_not_there(attack: Attack) -> None:
    """The control shows a harmless device under the name of a dangerous one."""
    assert weaker(DEVICES, plus=["--dev-bind", "/dev/null", "/dev/mem"]) == ["mem"]
    assert await attack(DEVICES) == []


MKNOD = """
import stat
answer = [attempt(os.mknod, "device", stat.S_IFCHR | 0o666, os.makedev(1, 3)), attempt(os.mknod, "pipe", stat.S_IFIFO)]
"""


async def test_devices_cannot_be_made(attack: Attack) -> None:
    """Only the real root can make devices, so no control shows it; that a pipe is made shows that the call arrives."""
    assert weaker(CALLS + MKNOD, without=["--seccomp"]) == ["EPERM", "worked"]
    assert await attack(CALLS + MKNOD) == ["EPERM", "worked"]


SYS = "answer = [path for path in ('/sys/kernel', '/sys/fs/cgroup', '/sys/class') if os.path.exists(path)]"


async def test_the_machines_control_files_in_sys_are_not_there(attack: Attack) -> None:
    machine = "os.makedirs('/srv/sys/kernel')"
    assert weaker(SYS, machine=machine, plus=["--ro-bind", "/srv/sys", "/sys"]) == ["/sys/kernel"]
    assert await attack(SYS) == []


SETUID = """
import shutil, subprocess
shutil.copy("/usr/bin/id", "id"); os.chmod("id", 0o6755)
answer = [subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout.strip()]
answer += [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")]
answer += [str(sum("nosuid" in line for line in open("/proc/mounts") if line.split()[1] in ("/workspace", "/tmp")))]
"""


async def test_a_setuid_program_gains_nothing(attack: Attack) -> None:
    """bwrap always forbids new privileges, so the control is a program of one throw-away user run by another one."""
    if os.getuid() == 0:
        assert set_user_id_works()
    assert await attack(SETUID) == ["1000", "1", "2"]
    if os.getuid() != 0:
        pytest.skip("held, but only root can show the control: it takes two users")


def set_user_id_works() -> bool:
    folder = Path(f"/var/tmp/assay-{secrets.token_hex(8)}")
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    try:
        (folder / "id").write_bytes(Path("/usr/bin/id").read_bytes())
        os.chown(folder / "id", 61_990, 61_990)
        (folder / "id").chmod(0o4755)
        command = [str(folder / "id"), "-u"]
        done = subprocess.run(command, user=61_991, group=61_991, extra_groups=[], capture_output=True, check=True)
        return done.stdout == b"61990\n"
    finally:
        (folder / "id").unlink()
        folder.rmdir()
