"""Files by commands alone keep to what files by other ways do; bubblewrap is the place where the commands run."""

import base64
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from assay.errors import SandboxError
from assay.registry import build_plugin
from environments.sandboxes import _by_exec
from environments.sandboxes._by_exec import Run
from environments.sandboxes._tree_hash import TreeHash
from environments.sandboxes.base import CollectLimits, Sandbox, SandboxSpec

WORK = "/workspace"
# The sandbox answers in text, so bytes travel as letters.
_AS_LETTERS = '"$@" > /tmp/out; code=$?; base64 -w0 /tmp/out; exit $code'


@pytest.fixture
async def place() -> AsyncIterator[Sandbox]:
    backend = build_plugin("sandbox", "bubblewrap")
    sandbox = await backend.create(SandboxSpec())
    yield sandbox
    await sandbox.destroy()
    backend.close()


@pytest.fixture
def run(place: Sandbox) -> Run:
    async def command(
        argv: Sequence[str], stdin: bytes, timeout_s: float, max_output: int
    ) -> tuple[int, bytes, bytes, bool]:
        words = ["sh", "-c", _AS_LETTERS, "sh", *argv]
        result = await place.exec(words, stdin=stdin, timeout_s=min(timeout_s, 20), max_output=2 * max_output)
        if result.timed_out or result.exit_code is None:
            raise SandboxError("the command did not end by itself")
        return result.exit_code, base64.b64decode(result.stdout), result.stderr.encode(), result.truncated

    return command


EVERY_BYTE = bytes(range(256)) * 20


@pytest.mark.parametrize("path", ["f", "deep/er/f", "-n", "a b/$HOME/*", "q'uo\"te/\n", "é"])
@pytest.mark.parametrize("data", [b"", EVERY_BYTE], ids=["nothing", "every byte"])
async def test_what_is_written_is_read_the_same(run: Run, path: str, data: bytes) -> None:
    await _by_exec.write(run, WORK, path, b"longer than what comes after", 0o644)
    await _by_exec.write(run, WORK, path, data, 0o644)
    assert await _by_exec.read(run, WORK, path, len(EVERY_BYTE)) == data


async def test_written_files_have_the_mode_and_nothing_stays_beside_them(run: Run, place: Sandbox) -> None:
    await _by_exec.write(run, WORK, "d/run", b"#!/bin/sh\necho ran", 0o755)
    await place.exec("mkdir d/full")
    with pytest.raises(SandboxError, match="Cannot write 'd/full' in the sandbox: Is a directory"):
        await _by_exec.write(run, WORK, "d/full", b"x", 0o644)
    assert (await place.exec("d/run; ls -A d; stat -c %a d/run")).stdout == "ran\nfull\nrun\n755\n"
    with pytest.raises(SandboxError, match="not allowed"):
        await _by_exec.write(run, WORK, "d/run", b"", 0o4755)


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../../x", "./x", "a//b", "a/", "a\0b", "\ud800"])
async def test_paths_that_could_lead_elsewhere_are_refused(run: Run, path: str) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        await _by_exec.write(run, WORK, path, b"", 0o644)
    with pytest.raises(SandboxError, match="not allowed"):
        await _by_exec.read(run, WORK, path, 10)


async def test_links_are_not_followed(run: Run, place: Sandbox, tmp_path: Path) -> None:
    await place.exec("mkdir /tmp/o; echo hunter2 > /tmp/o/secret; ln -s /tmp/o/secret file; ln -s /tmp/o folder")
    for path in ("file", "folder/secret"):
        with pytest.raises(SandboxError, match="Cannot"):
            await _by_exec.read(run, WORK, path, 100)
    (tmp_path / "secret").write_text("x")
    for attempt in (
        _by_exec.write(run, WORK, "folder/secret", b"x", 0o644),
        _by_exec.upload(run, WORK, tmp_path, "folder"),
    ):
        with pytest.raises(SandboxError, match="Not a directory"):
            await attempt
    for path in ("file", "folder"):
        await _by_exec.write(run, WORK, path, b"the link itself is replaced", 0o644)
    assert (await place.exec("cat /tmp/o/secret file; ls /tmp/o")).stdout == (
        "hunter2\nthe link itself is replacedsecret\n"
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkfifo f", "not a regular file"),
        ("mkdir f", "not a regular file"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\")'", "Cannot read"),
        ("echo > g; ln g f", "2 hard links"),
        ("head -c 2000 /dev/zero > f", "2000 bytes"),
        ("truncate -s 10M f", "10485760 bytes"),
        ("echo > f; chmod 0 f", "Permission denied"),
        ("true", "No such file"),
    ],
    ids=["fifo", "folder", "socket", "hard link", "large", "sparse", "unreadable", "missing"],
)
async def test_only_small_regular_files_with_one_name_are_read(
    run: Run, place: Sandbox, make: str, reason: str
) -> None:
    assert (await place.exec(make)).exit_code == 0
    with pytest.raises(SandboxError, match=reason):
        await _by_exec.read(run, WORK, "f", 1000)


async def test_a_folder_goes_in_and_comes_out_the_same(run: Run, place: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "sub").mkdir()
    (source / "sub" / "run").write_bytes(EVERY_BYTE)
    (source / "sub" / "run").chmod(0o755)
    (source / "link").symlink_to("/etc/passwd")
    await _by_exec.upload(run, WORK, source, "in/here")
    await place.exec(
        "ln -s /etc/passwd in/link; mkfifo in/fifo; echo > in/a; ln in/a in/b; mkdir in/shut; chmod 0 in/shut"
    )
    found = await _by_exec.download(run, WORK, "in", tmp_path / "out", CollectLimits())
    assert found.files == ("here/sub/run",)
    assert set(found.refused) == {"link", "fifo", "a", "b", "shut"}
    assert (tmp_path / "out" / "here" / "sub" / "run").read_bytes() == EVERY_BYTE
    assert os.stat(tmp_path / "out" / "here" / "sub" / "run").st_mode & 0o777 == 0o755
    assert (await place.exec("ls in/here")).stdout == "empty\nsub\n"


async def test_a_folder_that_is_not_there_is_said_in_the_result(run: Run, tmp_path: Path) -> None:
    found = await _by_exec.download(run, WORK, "none", tmp_path / "out", CollectLimits())
    assert (found.files, found.refused) == ((), {".": "No such file or directory"})


async def test_more_than_the_limits_is_cut_off_not_waited_for(run: Run, place: Sandbox, tmp_path: Path) -> None:
    await place.exec("head -c 3000 /dev/zero > a; truncate -s 15M b")
    limits = CollectLimits(max_files=10, max_file_bytes=4000, max_total_bytes=8000)
    found = await _by_exec.download(run, WORK, "", tmp_path / "out", limits)
    assert "b" not in found.files
    assert "too early" in found.refused["."] or "b" in found.refused


async def test_the_state_is_that_of_the_files_and_sees_every_change(run: Run, place: Sandbox, tmp_path: Path) -> None:
    await place.exec("mkdir d; echo 1 > d/f; ln -s /tmp l; mkfifo p; ln d/f d/g; mkdir __pycache__; chmod 750 d")
    first = await _by_exec.state_hash(run, WORK)
    (tmp_path / "same" / "d").mkdir(parents=True)
    (tmp_path / "same" / "d" / "f").write_text("1\n")
    (tmp_path / "same" / "d" / "g").hardlink_to(tmp_path / "same" / "d" / "f")
    (tmp_path / "same" / "d" / "f").chmod(0o644)
    (tmp_path / "same" / "l").symlink_to("/tmp")
    os.mkfifo(tmp_path / "same" / "p")
    (tmp_path / "same" / "p").chmod(0o644)
    (tmp_path / "same" / "d").chmod(0o750)
    root = os.open(tmp_path / "same", os.O_RDONLY)
    assert TreeHash().digest(root) == first
    os.close(root)
    seen = {first}
    for change in ("echo 2 > d/f", "chmod 600 d/f", "ln -sfn /etc l", "mkdir e", "rm p", "touch x; chmod 0 x"):
        await place.exec(change)
        seen.add(await _by_exec.state_hash(run, WORK))
    assert len(seen) == 7
    await place.exec("touch d/f __pycache__/new")
    assert await _by_exec.state_hash(run, WORK) in seen


async def test_a_work_dir_that_is_gone_is_an_error(run: Run, tmp_path: Path) -> None:
    for attempt in (
        _by_exec.read(run, "/none", "f", 10),
        _by_exec.state_hash(run, "/none"),
        _by_exec.download(run, "/none", "", tmp_path / "out", CollectLimits()),
    ):
        with pytest.raises(SandboxError, match="Cannot"):
            await attempt
