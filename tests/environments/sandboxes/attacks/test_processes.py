"""Processes: seeing, ending and taking over those of the machine, outliving the sandbox, stopping its clock."""

import asyncio
import secrets
import subprocess
from collections.abc import Iterator

import pytest

from environments.sandboxes.base import Sandbox
from tests.environments.sandboxes.attacks.programs import CALLS, USER, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD, Attack, processes_with

NO_WALL = ("--unshare-pid", *USER)


@pytest.fixture
def neighbour() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of this machine, run by whoever runs the tests; its last argument is found nowhere else."""
    with subprocess.Popen(["sleep", f"60.{secrets.randbelow(10**9):09}"]) as process:
        yield process
        process.kill()


SEE = """
answer = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: words = open(f"/proc/{pid}/cmdline").read().split("\\0")
    except OSError: continue
    answer += facts["mark"] in words
answer += os.path.exists(f"/proc/{facts['pid']}/status")
"""


async def test_processes_of_the_machine_are_not_seen(attack: Attack, neighbour: "subprocess.Popen[bytes]") -> None:
    machine = "facts['pid'] = subprocess.Popen(['sleep', facts['mark']]).pid"
    assert weaker(SEE, without=["--unshare-pid"], machine=machine, facts={"mark": "31"}) == 2
    assert isinstance(neighbour.args, list)
    assert await attack(told(SEE, mark=neighbour.args[-1], pid=neighbour.pid)) == 0


KILL = """
answer = attempt(os.kill, facts["pid"], signal.SIGKILL)
"""


async def test_processes_of_the_machine_are_not_ended(attack: Attack, neighbour: "subprocess.Popen[bytes]") -> None:
    machine, after = "facts['pid'] = victim()", "answer = [answer, alive(facts['pid'])]"
    assert weaker(CALLS + KILL, without=["--unshare-pid"], machine=machine, afterwards=after) == ["worked", False]
    everybody = "signal.signal(15, signal.SIG_IGN)\nattempt(os.kill, -1, 15)\n"
    assert await attack(told(CALLS + KILL + everybody, pid=neighbour.pid)) == "ESRCH"
    assert neighbour.poll() is None


TAKE_OVER = {
    "ptrace": "answer = call((101, 117), 16, pid, 0, 0)",
    "ptrace seize": "answer = call((101, 117), 0x4206, pid, 0, 0)",
    "memory file": """
area = next(line for line in open(f"/proc/{pid}/maps") if "[heap]" in line).split("-")[0]
def write():
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as file: file.seek(int(area, 16)); file.write(b"x")
answer = attempt(write)
""",
    "process_vm_writev": """
area = int(next(line for line in open(f"/proc/{pid}/maps") if "[heap]" in line).split("-")[0], 16)
ours, theirs = ctypes.create_string_buffer(8), ctypes.create_string_buffer(struct.pack("QQ", area, 8))
local = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(ours), 8))
answer = call((311, 271), pid, ctypes.addressof(local), 1, ctypes.addressof(theirs), 1, 0)
""",
    "pidfd_getfd": "answer = call((438, 438), os.pidfd_open(pid), 1, 0)",
    "limits": "import resource\nanswer = attempt(resource.prlimit, pid, resource.RLIMIT_CPU, (9, 9))",
    "environment": "answer = attempt(open, f'/proc/{pid}/environ')",
    "descriptors": "answer = attempt(os.listdir, f'/proc/{pid}/fd')",
    "out of memory score": "answer = attempt(lambda: open(f'/proc/{pid}/oom_score_adj', 'w').write('1000'))",
}
SAFE = "import os\nif not hasattr(os, 'pidfd_open'): raise SystemExit('needs Python 3.9')\npid = facts['pid']\ntry:\n"


def taking_over(way: str) -> str:
    """The attack, to which a missing target is an answer as well."""
    body = "\n".join("    " + line for line in TAKE_OVER[way].splitlines())
    return f"{CALLS}{SAFE}{body}\nexcept OSError as error:\n    answer = errno.errorcode[error.errno]"


@pytest.mark.parametrize("way", TAKE_OVER)
async def test_processes_of_the_machine_are_not_taken_over(
    attack: Attack, neighbour: "subprocess.Popen[bytes]", way: str
) -> None:
    code, machine = taking_over(way), "facts['pid'] = victim()"
    assert weaker(code, without=["--seccomp", *NO_WALL], machine=machine) == "worked"
    assert await attack(told(code, pid=neighbour.pid)) in {"ENOENT", "ESRCH", "ENOSYS"}


SIBLING = """
child = os.fork()
if child == 0: time.sleep(5); os._exit(0)
answer = call((101, 117), 16, child, 0, 0)
os.kill(child, 9)
"""


async def test_programs_inside_do_not_trace_each_other(attack: Attack) -> None:
    assert weaker(CALLS + SIBLING, without=["--seccomp"]) == "worked"
    assert await attack(CALLS + SIBLING) == "ENOSYS"


SURVIVE = """
import signal, time
def quiet():
    os.closerange(0, 64); os.execvp("sleep", ["sleep", facts["mark"]])
def stay(how):
    if os.fork() == 0:
        how(); quiet()
def daemon():
    os.setsid()
    if os.fork(): os._exit(0)
def deaf():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
def unbound():
    import ctypes
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # forget the parent-death signal
    os.setsid()
def many():
    for _ in range(20):
        if os.fork() == 0: quiet()
"""
WAYS = ("daemon", "deaf", "unbound", "many")


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_outlives_the_command(sandbox: Sandbox, way: str) -> None:
    code = f"{SURVIVE}stay({way}); time.sleep(0.3); answer = 'left'"
    control = weaker(
        code,
        without=["--unshare-pid", "--die-with-parent"],
        afterwards="answer = processes_with(facts['mark']) > 0",
        facts={"mark": "29.5"},
    )
    assert control is True
    mark = f"8631.{secrets.randbelow(10**12):012}"
    program = GUARD + told(code, mark=mark)
    result = await sandbox.exec(["python3", "-I", "-S", "-c", program])
    assert result.exit_code == 0
    assert processes_with(mark) == []


PARENT = "import time\nanswer = attempt(os.kill, os.getppid(), signal.SIGKILL)\ntime.sleep(0.3)"


async def test_the_first_process_cannot_be_ended_from_inside(attack: Attack) -> None:
    """The control ends what started it, by which the command's fate would become unknown."""
    control = weaker(
        CALLS + PARENT,
        without=["--unshare-pid", "--die-with-parent"],
        afterwards="answer = exit_code",
    )
    assert control == -9
    assert await attack(CALLS + PARENT.replace("os.getppid()", "1")) == "worked"


STOP = "import signal, time\nos.kill({group}, signal.SIGSTOP)\ntime.sleep(20)\nanswer = 0"
WATCH = """
meanwhile = '''
import signal, time
for _ in range(100):
    state = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[0]
    if state == "T": break
    time.sleep(0.02)
process.kill()
'''
"""


async def test_stopping_everything_does_not_stop_the_clock(sandbox: Sandbox) -> None:
    control = weaker(
        STOP.format(group=0),
        without=["--unshare-pid", "--new-session"],
        machine=WATCH,
        afterwards="answer = state",
    )
    assert control == "T"
    for group in (0, -1):
        program = GUARD + "import time\nif os.fork() == 0: time.sleep(20)\n" + STOP.format(group=group)
        result = await asyncio.wait_for(sandbox.exec(["python3", "-I", "-S", "-c", program], timeout_s=0.5), 10)
        assert result.timed_out
