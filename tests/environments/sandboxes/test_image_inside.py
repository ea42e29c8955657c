"""A sandbox whose root is an image: nothing of this machine is in it; what it has in the work dir may be changed."""

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap

PROGRAMS = ("sh", "ls", "cat", "id", "rm", "touch")


def with_libraries(program: str) -> set[Path]:
    """A program of this machine and the libraries it is linked with."""
    path = shutil.which(program)
    assert path is not None
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return {Path(path).resolve(), *(Path(found) for found in re.findall(r"(/\S+)", said))}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest image that can run a shell."""
    if shutil.which("ldd") is None:
        pytest.skip("there is no ldd to find libraries with")
    folder = tmp_path_factory.mktemp("image")
    for program in PROGRAMS:
        for file in with_libraries(program):
            target = folder / str(file).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    (folder / "bin").mkdir(exist_ok=True)
    for program in PROGRAMS:
        found = Path(shutil.which(program) or "").resolve()
        if not (folder / "bin" / program).exists():
            (folder / "bin" / program).symlink_to(found)
    for path, text in {"etc/os-release": "NAME=Tiny\n", "app/main.c": "int main;\n", "secret": "s\n"}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    folder.chmod(0o755)
    return folder


@pytest.fixture
async def inside(backend: Backend, root: Path) -> AsyncIterator[Sandbox]:
    if "image" not in (await backend.probe()).capabilities:
        pytest.skip("this backend shows no images")
    sandbox = await backend.create(SandboxSpec(image=str(root), work_dir="/app", files={"own": "x"}))
    yield sandbox
    await sandbox.destroy()


async def out(sandbox: Sandbox, command: str) -> str:
    result = await sandbox.exec(command)
    assert result.exit_code == 0, result
    return result.stdout


async def test_the_image_is_the_root_and_this_machine_is_not_there(inside: Sandbox) -> None:
    assert await out(inside, "cat /etc/os-release; pwd; ls") == "NAME=Tiny\n/app\nmain.c\nown\n"
    assert (await inside.exec(["python3", "--version"])).exit_code == 127
    assert (await inside.exec(["cat", "/etc/passwd"])).exit_code != 0


async def test_only_work_dir_and_tmp_are_written_and_the_image_stays(inside: Sandbox, root: Path) -> None:
    await out(inside, "echo more >> main.c; rm own; touch /tmp/x")
    assert (await inside.exec("rm -rf /bin /etc; touch /secret /new")).exit_code != 0
    assert await out(inside, "cat /etc/os-release main.c") == "NAME=Tiny\nint main;\nmore\n"
    assert (root / "app" / "main.c").read_text() == "int main;\n"
    await inside.restore()
    assert await out(inside, "cat main.c own") == "int main;\nx"


async def test_without_an_interpreter_in_the_image_there_is_no_session(inside: Sandbox) -> None:
    with pytest.raises(SandboxError, match="python3"):
        await inside.exec("true", session="main")
    assert await out(inside, "cat own") == "x"


async def test_results_say_which_image_it_was(inside: Sandbox, backend: Backend) -> None:
    ours = (await inside.exec(["true"])).provenance
    other = await backend.create(SandboxSpec())
    theirs = (await other.exec(["true"])).provenance
    assert len(ours.image_digest) == 64
    assert theirs.image_digest == ""
    assert ours.spec_hash != theirs.spec_hash
    assert (ours.backend, ours.version) == (theirs.backend, theirs.version)
    await other.destroy()


def saved_image(root: Path, target: Path) -> None:
    """An archive as `docker save` makes it: a layer with the root, and one that changes it."""
    layers = {}
    base, change = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=base, mode="w") as tar:
        tar.add(root, arcname=".")
    with tarfile.open(fileobj=change, mode="w") as tar:
        for name, data in {"app/.wh.main.c": b"", "app/second": b"2\n"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    layers = {"a/layer.tar": base.getvalue(), "b/layer.tar": change.getvalue()}
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["tiny:1"], "Layers": list(layers)}]).encode()
    with tarfile.open(target, "w") as tar:
        for name, data in {**layers, "c.json": b"{}", "manifest.json": manifest}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


async def test_an_archive_of_docker_save_is_unpacked_once_and_run(root: Path, tmp_path: Path) -> None:
    saved_image(root, tmp_path / "tiny.tar")
    backend = Bubblewrap(Bubblewrap.Config(cache_dir=str(tmp_path / "cache")))
    spec = SandboxSpec(image=str(tmp_path / "tiny.tar"), work_dir="/app")
    first, second = await backend.create(spec), await backend.create(spec)
    await out(first, "echo changed > second")
    assert await out(second, "ls; cat second") == "second\n2\n"
    assert len(list((tmp_path / "cache").glob("[0-9a-f]" * 64))) == 1
    backend.close()


async def test_a_damaged_archive_is_a_clear_error_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    saved_image(root, tmp_path / "whole.tar")
    data = (tmp_path / "whole.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    backend = Bubblewrap(Bubblewrap.Config(cache_dir=str(tmp_path / "cache")))
    with pytest.raises(SandboxError, match=r"cut\.tar"):
        await backend.create(SandboxSpec(image=str(tmp_path / "cut.tar")))
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_dir()] == []
    assert (await (await backend.create(SandboxSpec())).exec(["true"])).exit_code == 0
    backend.close()
