"""Other sandboxes, the next one, and the supervisor they share: tampering, leaving things behind, taking it down."""

import asyncio
import ctypes
import os
import secrets
from collections.abc import Iterator

import pytest

from assay.errors import SandboxLaunchError
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import CALLS, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, Attack, processes_with, run_attack, wait_until

TAMPER = """
answer = []
starts = ["/", "/proc/1/root", "/proc/1/cwd/..", "/tmp/..", "/boxes"]
for start in starts:
    for folder, folders, files in os.walk(start):
        folders[:] = [name for name in folders if name not in {"proc", "usr", "python", "dev"}]
        if facts["name"] in files:
            try: open(f"{folder}/{facts['name']}", "w").write("changed"); answer.append("changed")
            except OSError: answer.append("found")
answer = sorted(set(answer))
"""


async def test_the_work_dir_of_another_sandbox_is_neither_found_nor_changed(
    backend: Bubblewrap, attack: Attack
) -> None:
    machine = "os.makedirs('/srv/boxes/other'); open('/srv/boxes/other/answer-key', 'w').write('7')"
    facts = {"name": "answer-key"}
    assert weaker(TAMPER, machine=machine, plus=["--bind", "/srv/boxes", "/boxes"], facts=facts) == ["changed"]
    other = await backend.create(SandboxSpec(files={"answer-key": "7"}))
    assert await attack(told(TAMPER, **facts)) == []
    assert await other.read("answer-key") == b"7"
    await other.destroy()


LEAVE = """
for folder in ("/workspace", "/tmp", "/dev/shm"):
    open(f"{folder}/sitecustomize.py", "w").write("print('still here')")
    os.makedirs(f"{folder}/.hidden/deep"); os.chmod(f"{folder}/.hidden", 0)
answer = None
"""
FIND = "answer = [name for folder in ('/workspace', '/tmp', '/dev/shm') for name in sorted(os.listdir(folder))]"


async def test_nothing_is_left_for_the_next_sandbox(backend: Bubblewrap) -> None:
    control = weaker(LEAVE, afterwards="answer = sorted(os.listdir('/srv/workspace'))")
    assert control == [".hidden", "sitecustomize.py"]
    first = await backend.create(SandboxSpec())
    await run_attack(first, LEAVE)
    await first.destroy()
    second = await backend.create(SandboxSpec())
    assert await run_attack(second, FIND) == []
    await second.destroy()


QUEUE = "answer = 'worked' if raw((68, 186), 77, 0o1666) >= 0 else 'refused'"


async def test_no_message_queue_is_left_for_the_next_sandbox(attack: Attack) -> None:
    after = "answer = len(open('/proc/sysvipc/msg').readlines()) - 1"
    assert weaker(CALLS + QUEUE, without=["--seccomp", "--unshare-ipc"], afterwards=after) == 1
    assert weaker(CALLS + QUEUE, without=["--seccomp"], afterwards=after) == 0
    assert await attack(CALLS + QUEUE) == "refused"


@pytest.fixture
def own_backend() -> Iterator[Bubblewrap]:
    made = Bubblewrap(Bubblewrap.Config())
    yield made
    made.close()


SLEEP = "os.execvp('sleep', ['sleep', facts['mark']])"
KILLED = """
meanwhile = '''
import time
while not processes_with(facts["mark"]): time.sleep(0.02)
time.sleep(0.2)
process.kill()
time.sleep(0.2)
left = processes_with(facts["mark"]) > 0
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        if facts["mark"] in open(f"/proc/{name}/cmdline").read().split(chr(0)): os.kill(int(name), 9)
    except OSError: pass
'''
"""


async def test_a_killed_supervisor_takes_every_sandbox_with_it(own_backend: Bubblewrap) -> None:
    control = weaker(
        SLEEP,
        without=["--unshare-pid", "--die-with-parent"],
        machine=KILLED,
        afterwards="answer = left",
        facts={"mark": "28.25"},
    )
    assert control is True
    mark = f"8630.{secrets.randbelow(10**12):012}"
    sandbox = await own_backend.create(SandboxSpec())
    program = ["python3", "-I", "-S", "-c", GUARD + told(SLEEP, mark=mark)]
    running = asyncio.create_task(sandbox.exec(program, timeout_s=30))
    await asyncio.to_thread(wait_until, lambda: processes_with(f"sleep\0{mark}"))
    assert own_backend._client is not None
    own_backend._client._process.kill()
    with pytest.raises(SandboxLaunchError):
        await running
    await asyncio.to_thread(wait_until, lambda: not processes_with(mark))


FAKE_STATUS = """
import time
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: fds = os.listdir(f"/proc/{pid}/fd")
    except OSError: continue
    for fd in fds:
        if int(pid) == os.getpid() and int(fd) <= 2: continue
        try:
            with open(f"/proc/{pid}/fd/{fd}", "wb", buffering=0) as file: file.write(b'{ "exit-code": 0 }\\n')
        except OSError: pass
os._exit(7)
"""


async def test_a_failing_command_stays_one_whatever_it_writes_where(backend: Bubblewrap) -> None:
    """The control leaves the pipe on which bwrap reports open for the command, which then says that it ended well."""
    machine = "pipe, status = os.pipe()\npass_fds.append(status)\nplus += ['--json-status-fd', str(status)]"
    machine += "\npass_fds.append(os.dup(status))"
    after = "answer = json.loads(os.read(pipe, 9999).decode().splitlines()[1])['exit-code']"
    assert weaker(FAKE_STATUS, machine=machine, afterwards=after) == 0
    sandbox = await backend.create(SandboxSpec())
    program = ["python3", "-I", "-S", "-c", GUARD + FAKE_STATUS]
    assert (await sandbox.exec(program)).exit_code == 7
    await sandbox.destroy()


WATCHERS = """
import ctypes, time
libc, answer = ctypes.CDLL(None), 0
while libc.inotify_init() >= 0: answer += 1
open("full", "w").close()
time.sleep(facts["seconds"])
"""
LEAVE_SOME = """
open("/proc/sys/user/max_inotify_instances", "w").write("30")  # so that nobody else's are taken
meanwhile = '''
import ctypes, time
while not os.path.exists("/srv/workspace/full"): time.sleep(0.02)
able = ctypes.CDLL(None).inotify_init() >= 0
'''
"""


async def test_taking_every_file_watcher_leaves_some_to_whoever_started_it(backend: Bubblewrap) -> None:
    """Counted per user: the control's attacker and machine are one user, as they are without the change of user."""
    facts = {"seconds": 0.5}
    assert weaker(WATCHERS, machine=LEAVE_SOME, afterwards="answer = able", facts=facts) is False
    sandbox = await backend.create(SandboxSpec())
    running = asyncio.create_task(run_attack(sandbox, told(WATCHERS, seconds=1)))
    await asyncio.sleep(0.5)
    watcher = ctypes.CDLL(None).inotify_init()
    assert await running > 0
    await sandbox.destroy()
    assert watcher >= 0
    os.close(watcher)
