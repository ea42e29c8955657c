"""What the attacker leaves for whoever collects its results: links, pipes, holes, odd names, endless trees."""

import asyncio
from pathlib import Path

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import CollectLimits, Sandbox, SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
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


MIXED = """
open("plain", "w").write("fine"); os.mkdir("sub"); open("sub/deeper", "w").write("fine")
os.symlink(facts["secret"], "file"); os.symlink(os.path.dirname(facts["secret"]), "folder"); os.mkfifo("sub/pipe")
os.link("plain", "twin"); os.chmod("sub/deeper", 0o6777); open("huge", "w").truncate(10 << 20)
answer = None
"""
COPY = """
import shutil
shutil.copytree("/srv/workspace", "/srv/copy", ignore=lambda folder, names: ["pipe"])
answer = [open("/srv/copy/file").read(), open("/srv/copy/folder/secret").read()]
"""


async def test_collecting_a_folder_brings_plain_files_alone(sandbox: Sandbox, tmp_path: Path) -> None:
    facts = {"secret": "/srv/host/secret"}
    assert weaker(MIXED, machine=SECRET, afterwards=COPY, facts=facts) == ["hunter2", "hunter2"]
    (tmp_path / "secret").write_text("hunter2")
    await run_attack(sandbox, told(MIXED, secret=str(tmp_path / "secret")))
    collected = await sandbox.download("", tmp_path / "copy", limits=CollectLimits(max_file_bytes=1 << 20))
    assert collected.files == ("sub/deeper",)
    assert set(collected.refused) == {"file", "folder", "sub/pipe", "plain", "twin", "huge"}
    found = [path for path in (tmp_path / "copy").rglob("*") if not path.is_dir()]
    assert found == [tmp_path / "copy/sub/deeper"]
    assert found[0].stat().st_mode & 0o7000 == 0


SPOIL = """
open("given", "w").write("spoiled"); open("new", "w").close(); os.remove("other"); os.chmod("given", 0o777)
answer = None
"""


async def test_folders_that_sandboxes_share_are_not_changed_by_one(backend: Bubblewrap, tmp_path: Path) -> None:
    """The control binds the folder itself where the sandbox puts a layer for the changes on top."""
    machine = "\n".join(f"open('/srv/workspace/{name}', 'w').write('as given')" for name in ("given", "other"))
    after = "answer = sorted(os.listdir('/srv/workspace')), open('/srv/workspace/given').read()"
    assert weaker(SPOIL, machine=machine, afterwards=after) == [["given", "new"], "spoiled"]
    if "layers" not in (await backend.probe()).capabilities:
        pytest.skip("this machine has no layers")
    for name in ("given", "other"):
        (tmp_path / name).write_text("as given")
    sandbox = await backend.create(SandboxSpec(layers=(str(tmp_path),)))
    await run_attack(sandbox, SPOIL)
    assert await sandbox.read("given") == b"spoiled"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "other"]
    assert {path.read_text() for path in tmp_path.iterdir()} == {"as given"}
    await sandbox.destroy()
