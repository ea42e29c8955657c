"""Races with whoever reads and writes in the work dir: what is checked is swapped before it is opened."""

import asyncio
from pathlib import Path

from assay.errors import SandboxError
from environments.sandboxes.base import Sandbox
from tests.environments.sandboxes.attacks.programs import told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import GUARD

SECRET = "os.mkdir('/srv/host'); open('/srv/host/secret', 'w').write('hunter2')"
SWAP = """
import time
end = time.monotonic() + facts["seconds"]
number = 0
while time.monotonic() < end:
    number += 1
    if number % 2: os.symlink(facts["secret"], "next")
    else: open("next", "w").write("harmless")
    os.rename("next", "result")
answer = number
"""
RACE = """
meanwhile = '''
import stat, time
seen = set()
while process.poll() is None and "hunter2" not in seen:
    try:
        if not stat.S_ISREG(os.lstat("/srv/workspace/result").st_mode): continue
        time.sleep(0.0002)
        seen.add(open("/srv/workspace/result").read())
    except OSError: continue
process.kill()
'''
"""


async def test_swapping_a_file_for_a_link_while_it_is_read_shows_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    control = weaker(
        SWAP,
        machine=SECRET + RACE,
        afterwards="answer = 'hunter2' in seen",
        facts={"secret": "/srv/host/secret", "seconds": 4},
    )
    assert control is True
    (tmp_path / "secret").write_text("hunter2")
    code = GUARD + told(SWAP, secret=str(tmp_path / "secret"), seconds=1)
    running = asyncio.create_task(sandbox.exec(["python3", "-I", "-S", "-c", code]))
    seen, refused = set(), 0
    while not running.done():
        try:
            seen.add(await sandbox.read("result"))
        except SandboxError:
            refused += 1
        await asyncio.sleep(0)
    assert seen <= {b"harmless", b""}
    assert refused
    assert (await running).exit_code == 0


DIVERT = """
import time
end = time.monotonic() + facts["seconds"]
answer = 0
while time.monotonic() < end:
    answer += 1
    try:
        os.symlink(facts["outside"], "next"); os.rename("next", "folder")
        os.unlink("folder"); os.mkdir("folder")
    except OSError: pass
    try: os.rename("folder", f"old{answer}")
    except OSError: pass
"""
WRITE_RACE = """
os.mkdir("/srv/outside")
meanwhile = '''
import stat, time
while process.poll() is None and not os.listdir("/srv/outside"):
    try:
        if not stat.S_ISDIR(os.lstat("/srv/workspace/folder").st_mode): continue
        open("/srv/workspace/folder/file", "w").close()
    except OSError: continue
process.kill()
'''
"""


async def test_swapping_a_folder_for_a_link_while_it_is_written_diverts_nothing(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    control = weaker(
        DIVERT,
        machine=WRITE_RACE,
        afterwards="answer = os.listdir('/srv/outside')",
        facts={"outside": "/srv/outside", "seconds": 4},
    )
    assert control == ["file"]
    code = GUARD + told(DIVERT, outside=str(tmp_path), seconds=1)
    running = asyncio.create_task(sandbox.exec(["python3", "-I", "-S", "-c", code]))
    before = sorted(tmp_path.iterdir())
    while not running.done():
        try:
            await sandbox.write("folder/file", b"x")
        except SandboxError:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert sorted(tmp_path.iterdir()) == before
