"""Secrets of the process that starts sandboxes: its environment, its memory, its open files, its crash images."""

import os
import socket
from collections.abc import Iterator

import pytest

from environments.sandboxes.base import Sandbox
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import USER, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, Attack

DIRTY = "env['API_KEY'] = 'hunter2'"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bubblewrap]:
    """Started where the environment holds a secret, and open files that a child would inherit lead to one."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "secret").write_text("hunter2")
    ours, theirs = socket.socketpair()
    held = [os.open(folder / "secret", os.O_RDONLY), os.open(folder, os.O_RDONLY), theirs.detach()]
    socket.send_fds(ours, [b"x"], held[:1])
    for fd in held:
        os.set_inheritable(fd, True)
    with pytest.MonkeyPatch.context() as patch, ours:
        patch.setenv("API_KEY", "hunter2")
        made = Bubblewrap(Bubblewrap.Config())
        yield made
        made.close()
    for fd in held:
        os.close(fd)


async def test_the_environment_holds_no_secret(attack: Attack) -> None:
    code = "answer = 'hunter2' in str(dict(os.environ))"
    assert weaker(code, without=["--clearenv"], machine=DIRTY) is True
    assert await attack(code) is False


ENVIRON = """
answer = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "auxv"):
        try: answer += b"hunter" + b"2" in open(f"/proc/{pid}/{name}", "rb").read()
        except OSError: pass
"""


async def test_no_process_inside_was_started_with_a_secret(attack: Attack) -> None:
    assert weaker(ENVIRON, machine=DIRTY) >= 1
    assert await attack(ENVIRON) == 0


MEMORY = """
answer = {"read": 0, "found": False}
with open("/proc/1/maps") as maps, open("/proc/1/mem", "rb", buffering=0) as memory:
    for line in maps:
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        try: memory.seek(start); data = memory.read(min(end - start, 1 << 26))
        except (OSError, OverflowError, ValueError): continue
        answer["read"] += len(data)
        answer["found"] = answer["found"] or b"hunter" + b"2" in data
"""


async def test_the_memory_of_the_first_process_holds_no_secret(attack: Attack) -> None:
    control = weaker(MEMORY, machine=DIRTY)
    assert control["found"] is True
    found = await attack(MEMORY)
    assert found["read"] > 0
    assert found["found"] is False


async def test_owning_the_first_process_gives_nothing_but_the_own_end(sandbox: Sandbox) -> None:
    """PID 1 is the attacker's own user and can be overwritten; the control does that to a process of the machine."""
    control = weaker(
        OVERWRITE,
        without=["--unshare-pid", *USER],
        machine="facts['pid'] = victim()",
        afterwards="answer = alive(facts['pid'])",
    )
    assert control is False
    result = await sandbox.exec(["python3", "-I", "-S", "-c", GUARD + told(OVERWRITE, pid=1)], timeout_s=5)
    assert result.wall_s < 6
    assert (await sandbox.exec(["echo", "again"])).stdout == "again\n"


OVERWRITE = """
import signal
areas = [line.split()[0].split("-") for line in open(f"/proc/{facts['pid']}/maps") if " r-xp " in line]
with open(f"/proc/{facts['pid']}/mem", "r+b", buffering=0) as memory:
    for start, end in areas:
        try: memory.seek(int(start, 16)); memory.write(b"\\xcc" * (int(end, 16) - int(start, 16)))
        except (OSError, OverflowError, ValueError): pass
try: os.kill(facts["pid"], signal.SIGCONT)
except OSError: pass
import time
time.sleep(0.4)
answer = "written"
"""
DESCRIPTORS = """
import array
answer = set()
for fd in map(int, os.listdir("/proc/self/fd")):
    try: answer.add(os.pread(fd, 7, 0).decode())
    except (OSError, UnicodeDecodeError): pass
    try: answer.add(open(os.open("secret", os.O_RDONLY, dir_fd=fd)).read())
    except OSError: pass
    try:
        with socket.socket(fileno=os.dup(fd)) as channel:
            channel.setblocking(False)
            received = channel.recvmsg(10, socket.CMSG_SPACE(4))[1]
        answer.add(os.pread(array.array("i", received[0][2])[0], 7, 0).decode())
    except (OSError, IndexError, ValueError): pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: names = os.listdir(f"/proc/{pid}/fd")
    except OSError: continue
    for name in names:
        try: answer.add(open(os.open(f"/proc/{pid}/fd/{name}/secret", os.O_RDONLY)).read())
        except OSError: pass
answer = sorted(word for word in answer if word == "hunter2")
"""
SECRET = "os.mkdir('/srv/private'); open('/srv/private/secret', 'w').write('hunter2')\n"
LEAKS = {
    "file": "pass_fds.append(os.open('/srv/private/secret', os.O_RDONLY))",
    "folder": "pass_fds.append(os.open('/srv/private', os.O_RDONLY))",
    "socket that passes descriptors": """
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b"x"], [os.open("/srv/private/secret", os.O_RDONLY)])
pass_fds.append(theirs.fileno())
""",
}


@pytest.mark.parametrize("kind", LEAKS)
async def test_no_open_file_of_the_starting_process_is_inherited(attack: Attack, kind: str) -> None:
    assert weaker(DESCRIPTORS, machine=SECRET + LEAKS[kind]) == ["hunter2"]
    assert await attack(DESCRIPTORS) == []


async def test_no_crash_image_is_written_where_others_collect_it(attack: Attack) -> None:
    """The control stops at the limit: an image made on the real machine would go to whoever collects them there."""
    code = "import resource\nanswer = resource.getrlimit(resource.RLIMIT_CORE)[1]"
    if weaker(code, unlimited=["core"]) == 0:
        pytest.skip("these tests were themselves started without crash images")
    assert await attack(code) == 0
