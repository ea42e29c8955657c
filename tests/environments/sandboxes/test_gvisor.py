"""What only the gVisor backend has: its bundle, its reasons for not working, and its end when Assay is killed."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import environments
from assay.errors import SandboxUnavailable, SandboxUnsupported
from environments.sandboxes import _bundle, _locate, gvisor
from environments.sandboxes.base import Limits, SandboxSpec
from environments.sandboxes.gvisor import GVisor
from tests.environments.sandboxes.probing import processes_with, wait_until

ROOT = Path(str(environments.__file__)).parents[1]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="runsc needs root")
with_runsc = pytest.mark.skipif(shutil.which("runsc") is None or os.getuid() != 0, reason="runsc or root is missing")


def test_the_bundle_shows_nothing_writable_of_this_machine(tmp_path: Path) -> None:
    spec = SandboxSpec(mounts={"/data": "/usr/share"}, limits=Limits(memory_bytes=1 << 20, disk_bytes=1 << 16))
    _bundle.write_bundle(tmp_path, spec, _locate.shown_python(""), "/assay-x")
    config = json.loads((tmp_path / "config.json").read_text())
    binds = [mount for mount in config["mounts"] if mount["type"] == "bind"]
    assert all("ro" in mount["options"] for mount in binds)
    assert config["root"]["readonly"]
    assert {"/usr", "/data"} <= {mount["destination"] for mount in binds}
    sizes = {mount["destination"]: mount["options"][0] for mount in config["mounts"] if mount["type"] == "tmpfs"}
    assert {sizes[place] for place in ("/workspace", "/tmp", "/dev/shm")} == {"size=65536"}
    assert config["process"]["capabilities"] == {}


def test_an_archive_as_image_is_refused_with_what_to_do(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"")
    with pytest.raises(SandboxUnsupported, match="Unpack it first"):
        _bundle.write_bundle(tmp_path, SandboxSpec(image=str(archive)), _locate.shown_python(""), None)


@as_root
async def test_without_runsc_the_error_says_what_to_install() -> None:
    backend = GVisor(GVisor.Config(runsc="no-such-runsc"))
    with pytest.raises(SandboxUnavailable, match="apt-get install runsc"):
        await backend.create(SandboxSpec())
    assert not (await backend.probe()).works


ASSAY = """
import asyncio, sys
from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.gvisor import GVisor
async def main():
    sandbox = await GVisor(GVisor.Config()).create(SandboxSpec())
    print(sandbox.id, sandbox._backend._leftovers.folder, flush=True)
    await sandbox.exec(["sleep", "100"], timeout_s=100)
asyncio.run(main())
"""


@with_runsc
def test_when_assay_is_killed_no_sandbox_folder_or_group_stays() -> None:
    process = subprocess.Popen([sys.executable, "-c", ASSAY], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        box, folder = process.stdout.readline().split()
        wait_until(lambda: processes_with(box))
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not processes_with(box))
    wait_until(lambda: not Path(folder).exists())
    assert not list(Path("/sys/fs/cgroup").glob(f"*/assay-{box}"))


@with_runsc
async def test_a_folder_is_shown_as_the_image_and_named_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = gvisor.folder_digest
    # To read all of /usr takes half a minute and shows nothing.
    monkeypatch.setattr(gvisor, "folder_digest", lambda path: "" if path == "/usr" else digest(path))
    # The machine's own /usr is taken for the image's, for a whole system would take long to copy.
    root = tmp_path / "root"
    for name in ("etc", "proc", "dev", "tmp", "workspace", "usr"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(f"usr/{name}")
    (root / "etc/mark").write_text(secrets.token_hex(4))
    backend = GVisor(GVisor.Config())
    sandbox = await backend.create(SandboxSpec(image=str(root), mounts={"/usr": "/usr"}))
    result = await sandbox.exec("cat /etc/mark; touch /etc/x || echo refused")
    assert result.stdout == (root / "etc/mark").read_text() + "refused\n"
    assert len(result.provenance.image_digest) == 64
    backend.close()
