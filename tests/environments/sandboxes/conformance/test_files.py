"""Files go in and come out, and nothing an agent leaves there leads elsewhere."""

import asyncio
from pathlib import Path

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec


async def test_files_of_the_spec_are_there_and_belong_to_the_agent(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(files={"a.txt": "é", "deep/er/b.py": "print(7)"}))
    assert (await sandbox.exec(["sh", "-c", "cat a.txt && python3 deep/er/b.py && rm -r a.txt deep"])).stdout == "é7\n"
    await sandbox.destroy()


async def test_files_stay_between_commands_and_can_be_read(sandbox: Sandbox) -> None:
    await sandbox.exec(["sh", "-c", "mkdir d; printf one > d/f; printf two > ${TMPDIR:-/tmp}/g"])
    assert await sandbox.read("d/f") == b"one"
    assert (await sandbox.exec("cat d/f ${TMPDIR:-/tmp}/g")).stdout == "onetwo"


async def test_writing_replaces_a_file_and_the_agent_may_change_it(sandbox: Sandbox) -> None:
    await sandbox.write("f", b"first and longer")
    await sandbox.write("f", b"second")
    await sandbox.exec(["sh", "-c", "printf + >> f"])
    assert await sandbox.read("f") == b"second+"


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../../x", "./x", "a//b", "a/", "a\0b", "\ud800"])
async def test_paths_that_could_lead_elsewhere_are_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        await sandbox.write(path, b"")
    with pytest.raises(SandboxError, match="not allowed"):
        await sandbox.read(path)


async def test_links_are_never_followed_out_of_the_work_dir(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    await sandbox.exec(["sh", "-c", f"ln -s {secret} file; ln -s {tmp_path} folder"])
    for path in ("file", "folder/secret"):
        with pytest.raises(SandboxError, match="Cannot"):
            await sandbox.read(path)
    with pytest.raises(SandboxError, match="Cannot"):
        await sandbox.write("folder/secret", b"overwritten")
    await sandbox.write("file", b"the link itself is replaced")
    assert secret.read_text() == "hunter2"
    assert await sandbox.read("file") == b"the link itself is replaced"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkfifo f", "not a regular file"),
        ("mkdir f", "not a regular file"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\")'", "Cannot read"),
        ("echo > g; ln g f", "2 hard links"),
        ("head -c 2000 /dev/zero > f", "2000 bytes"),
        ("truncate -s 10M f", "10485760 bytes"),
        ("true", "No such file"),
    ],
    ids=["fifo", "folder", "socket", "hard link", "large", "sparse", "missing"],
)
async def test_only_small_regular_files_with_one_name_are_read(sandbox: Sandbox, make: str, reason: str) -> None:
    assert (await sandbox.exec(["sh", "-c", make])).exit_code == 0
    with pytest.raises(SandboxError, match=reason):
        await asyncio.wait_for(sandbox.read("f", max_bytes=1000), 5)


async def test_a_command_runs_in_the_folder_that_was_asked_for(sandbox: Sandbox) -> None:
    await sandbox.exec(["mkdir", "below"])
    here = (await sandbox.exec(["pwd"])).stdout.strip()
    assert (await sandbox.exec(["pwd"], cwd="below")).stdout == f"{here}/below\n"
    assert (await sandbox.exec(["pwd"], cwd="/usr")).stdout == "/usr\n"


async def test_a_folder_goes_in_and_comes_out_the_same(sandbox: Sandbox, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep/f").write_bytes(bytes(range(256)))
    (source / "run.sh").write_text("echo ran")
    (source / "run.sh").chmod(0o755)
    await sandbox.upload(source, "tree")
    assert (await sandbox.exec(["tree/run.sh"])).exit_code in (0, 126)  # without #! only a shell runs it
    collected = await sandbox.download("tree", target)
    assert sorted(collected.files) == ["deep/f", "run.sh"]
    assert (target / "deep/f").read_bytes() == bytes(range(256))


async def test_the_state_hash_follows_contents_and_not_times(sandbox: Sandbox) -> None:
    await sandbox.write("f", b"one")
    first = await sandbox.state_hash()
    await sandbox.exec("touch -d 2001-01-01 f; mkdir -p __pycache__; touch __pycache__/x")
    assert await sandbox.state_hash() == first
    await sandbox.write("f", b"two")
    assert await sandbox.state_hash() != first
