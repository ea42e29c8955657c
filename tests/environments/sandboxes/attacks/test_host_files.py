"""Files of the machine: reading what must stay hidden, replacing what others run."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import USER, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import Attack, run_attack

# A bwrap from the Python package is copied, and as a plain user the copy belongs to the sandbox's user.
OWN_COPY = os.getuid() != 0 and shutil.which("bwrap") is None

READ = """
found = set()
for prefix in ("", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/..", "/workspace/../..", "/proc/1/cwd/../.."):
    try: found.add(open(prefix + facts["path"]).read())
    except OSError: pass
answer = sorted(found)
"""
HIDE = "open('/srv/secret', 'w').write('hunter2'); os.chmod('/srv/secret', {mode})"


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["its owner", "everybody"])
async def test_a_file_that_somebody_may_read_outside_is_not_there_inside(
    attack: Attack, tmp_path: Path, mode: int
) -> None:
    control = weaker(
        READ, machine=HIDE.format(mode=mode), plus=["--ro-bind", "/srv", "/srv"], facts={"path": "/srv/secret"}
    )
    assert control == ["hunter2"]
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(mode)
    assert await attack(told(READ, path=str(secret))) == []


ROOTS = """
answer = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for way in ("root", "cwd/" + "../" * 20, "task/" + pid + "/root", "map_files"):
        try: answer.append(open(f"/proc/{pid}/{way}{facts['path']}").read())
        except OSError: pass
"""


async def test_no_process_leads_to_the_machines_root(attack: Attack, tmp_path: Path) -> None:
    machine = f"{HIDE.format(mode=0o600)}\nvictim()"
    control = weaker(ROOTS, without=["--unshare-pid", *USER], machine=machine, facts={"path": "/srv/secret"})
    assert "hunter2" in control
    (tmp_path / "secret").write_text("hunter2")
    assert await attack(told(ROOTS, path=str(tmp_path / "secret"))) == []


WRITE = """
answer = []
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if (folder, name) not in {("/", "proc"), ("/", "usr"), ("/opt", "python")}]
    try:
        open(f"{folder}/new", "w").close(); answer.append(folder)
    except OSError: pass
for path in ("/usr/new", "/usr/bin/new", "/usr/lib/new", "/etc/ld.so.preload", "/etc/passwd", "/lib/new", "/bin/sh"):
    try:
        open(path, "a").close(); answer.append(path)
    except OSError: pass
"""


async def test_nothing_but_the_own_places_can_be_written(attack: Attack) -> None:
    assert {"/", "/etc", "/etc/ld.so.preload"} <= set(weaker(WRITE, plus=["no-seal"]))
    assert set(await attack(WRITE)) == {"/workspace", "/tmp", "/dev/shm"}


REPLACE = """
answer = []
for folder in os.environ["PATH"].split(":"):
    for action in (lambda: os.rename(f"{folder}/python3", f"{folder}/old"), lambda: os.unlink(f"{folder}/python3"),
                   lambda: open(f"{folder}/python3", "w").close(), lambda: os.symlink("/workspace/x", f"{folder}/new")):
        try: action(); answer.append(folder)
        except OSError: pass
answer = sorted(set(answer))
"""


async def test_programs_on_the_path_cannot_be_replaced(attack: Attack) -> None:
    machine = "os.makedirs('/srv/local/bin'); open('/srv/local/bin/python3', 'w').close()"
    machine += "; os.symlink(sys.executable, '/srv/local/bin/python3.real')"
    assert weaker(REPLACE, machine=machine, plus=["--bind", "/srv/local", "/usr/local"]) == ["/usr/local/bin"]
    assert await attack(REPLACE) == []


BINARY = """
import time
held = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if int(pid) != os.getpid() and facts["name"] in os.readlink(f"/proc/{pid}/exe"):
            held[pid] = os.open(f"/proc/{pid}/exe", os.O_PATH)
    except OSError: pass
time.sleep(0.4)  # a binary cannot be written while it runs
def change(path):
    for action in (lambda: os.close(os.open(path, os.O_WRONLY)), lambda: os.truncate(path, 0),
                   lambda: os.setxattr(path, "user.x", b"1"), lambda: os.utime(path, (0, 0)),
                   lambda: os.chmod(path, 0o700)):
        try: action(); yield "changed"
        except OSError: pass
answer = [word for fd in held.values() for word in change(f"/proc/self/fd/{fd}")]
answer += [word for pid in held for word in change(f"/proc/{pid}/exe")]
answer = [len(held), len(answer)]
"""
SHORT_LIVED = """
import shutil
shutil.copy("/usr/bin/sleep", "/srv/launcher")
subprocess.Popen(["/srv/launcher", "0.2"], preexec_fn=without_privileges)
"""


@pytest.fixture
def own_backend() -> Iterator[Bubblewrap]:
    made = Bubblewrap(Bubblewrap.Config())
    yield made
    made.close()


@pytest.mark.xfail(OWN_COPY, reason="a plain user's agent owns the copy of bwrap that runs it", strict=True)
async def test_the_program_that_makes_sandboxes_cannot_be_changed(own_backend: Bubblewrap) -> None:
    """As in the overwriting of a container runtime through /proc/self/exe; also its mode, which would stop it."""
    seen, changed = weaker(BINARY, without=["--unshare-pid", *USER], machine=SHORT_LIVED, facts={"name": "launcher"})
    assert (seen, changed > 0) == (1, True)
    sandbox = await own_backend.create(SandboxSpec())
    assert await run_attack(sandbox, told(BINARY, name="bwrap")) == [1, 0]
    assert (await sandbox.exec(["echo", "again"])).stdout == "again\n"
