"""What the attacker leaves for whoever collects its results: links, pipes, holes, odd names, endless trees."""

import asyncio
from pathlib import Path

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Sandbox
from tests.environments.sandboxes.attacks.programs import told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import run_attack

# The control is a collector as one writes it at first, run by the stand-in machine over the folder it shared.
NAIVE = """
import signal
signal.alarm(1)
def stuck(*_): raise TimeoutError
signal.signal(signal.SIGALRM, stuck)
try:
    with open("/srv/workspace/result") as file: answer = file.read(1 << 16)[:7]
    answer = "huge" if os.path.getsize("/srv/workspace/result") > 1 << 40 else answer
except TimeoutError: answer = "stuck"
"""
SECRET = "os.mkdir('/srv/host'); open('/srv/host/secret', 'w').write('hunter2')"
TRAPS = {
    "symbolic link": ("os.symlink(facts['secret'], 'result')", "hunter2", "Cannot read"),
    "link through a folder": (
        "os.symlink(os.path.dirname(facts['secret']), 'way'); os.symlink('way/secret', 'result')",
        "hunter2",
        "Cannot read",
    ),
    "link to the reader itself": ("os.symlink('/proc/self/environ', 'result')", "PWD=/wo", "Cannot read"),
    "pipe": ("os.mkfifo('result')", "stuck", "not a regular file"),
    "hole": ("open('result', 'w').truncate(facts['size'])", "huge", "bytes"),
}


@pytest.mark.parametrize("kind", TRAPS)
async def test_a_trap_among_the_results_is_refused(sandbox: Sandbox, tmp_path: Path, kind: str) -> None:
    make, consequence, reason = TRAPS[kind]
    code = f"{make}\nanswer = None"
    facts = {"secret": "/srv/host/secret", "size": 2 << 40}
    assert weaker(code, machine=SECRET, afterwards=NAIVE, facts=facts, unlimited=["file_size"]) == consequence
    (tmp_path / "secret").write_text("hunter2")
    await run_attack(sandbox, told(code, secret=str(tmp_path / "secret"), size=10 << 20))
    with pytest.raises(SandboxError, match=reason):
        await asyncio.wait_for(sandbox.read("result"), 5)


LINK = """
try: os.link(facts["secret"], facts["folder"] + "/result"); answer = "linked"
except OSError as error: answer = type(error).__name__
"""


async def test_a_file_of_another_cannot_be_linked_into_the_results(sandbox: Sandbox) -> None:
    """The control shows a folder with the machine's file and the results in one mount; a second name is refused."""
    facts = {"secret": "/srv/host/secret", "folder": "/srv/workspace"}
    control = weaker(LINK, machine=SECRET, afterwards=NAIVE, facts=facts, plus=["--bind", "/srv", "/srv"])
    assert control == "hunter2"
    linked = await run_attack(sandbox, told(LINK, secret="/usr/bin/env", folder="/workspace"))
    assert linked != "linked"
    await run_attack(sandbox, "open('own', 'w').close(); os.link('own', 'result'); answer = None")
    with pytest.raises(SandboxError, match="2 hard links"):
        await sandbox.read("result")


NAMES = "open('harmless\\nconftest.py', 'w').close(); open('\\x1b]0;owned\\x07', 'w').close(); answer = None"
LISTING = "answer = 'conftest.py' in chr(10).join(os.listdir('/srv/workspace')).splitlines()"


async def test_a_name_with_a_line_end_is_one_name(sandbox: Sandbox) -> None:
    """The control reads a listing by lines and finds a file that is not there."""
    assert weaker(NAMES, afterwards=LISTING) is True
    await run_attack(sandbox, NAMES)
    assert await sandbox.read("harmless\nconftest.py") == b""
    with pytest.raises(SandboxError, match="No such file"):
        await sandbox.read("conftest.py")


DEEP = """
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
open("leaf", "w").close()
os.chdir("/workspace")
answer = None
"""
RECURSE = """
def size(path):
    return sum(size(os.path.join(path, name)) if os.path.isdir(os.path.join(path, name)) else 1
               for name in os.listdir(path))
try: answer = size("/srv/workspace")
except (RecursionError, OSError) as error: answer = type(error).__name__
"""


async def test_a_tree_too_deep_to_walk_does_not_keep_the_sandbox_alive(sandbox: Sandbox) -> None:
    assert weaker(DEEP, afterwards=RECURSE) in {"RecursionError", "OSError"}
    await run_attack(sandbox, DEEP)
    with pytest.raises(SandboxError):
        await sandbox.read("/".join(["d"] * 1501))
    await asyncio.wait_for(sandbox.destroy(), 10)
