"""Reading and writing below an open folder stays below it, whatever the path and whatever lies there."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import SandboxError
from environments.sandboxes._files import read_file, write_file

ME = (os.getuid(), os.getgid())


@pytest.fixture
def root(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    folder = tmp_path / "outer" / "root"
    folder.mkdir(parents=True)
    (tmp_path / "outer" / "secret").write_text("hunter2")
    (folder / "up").symlink_to("..")
    (folder / "away").symlink_to("/")
    (folder / "loop").symlink_to("loop")
    fd = os.open(folder, os.O_RDONLY)
    yield fd, folder
    os.close(fd)


names = st.sampled_from(["up", "away", "loop", "..", ".", "", "a", "b", "secret", "\0", "é", "x" * 300, "\udcff"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(parts=st.lists(names, min_size=1, max_size=5))
def test_no_path_reads_or_writes_outside(root: tuple[int, Path], parts: list[str]) -> None:
    fd, folder = root
    path = "/".join(parts)
    try:
        write_file(fd, path, b"written", ME)
    except SandboxError:
        with pytest.raises(SandboxError):
            read_file(fd, path, 10)
    else:
        assert (folder / path).resolve().is_relative_to(folder)
        assert read_file(fd, path, 10) == b"written"
    assert [entry.name for entry in folder.parent.iterdir() if entry.is_file()] == ["secret"]
    assert (folder.parent / "secret").read_text() == "hunter2"


@given(data=st.binary(max_size=3000), room=st.integers(0, 3000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
def test_a_file_comes_back_whole_or_not_at_all(root: tuple[int, Path], data: bytes, room: int) -> None:
    write_file(root[0], "f", data, ME)
    if len(data) <= room:
        assert read_file(root[0], "f", room) == data
    else:
        with pytest.raises(SandboxError, match=f"{len(data)} bytes"):
            read_file(root[0], "f", room)


def test_a_failed_write_leaves_nothing_behind(root: tuple[int, Path]) -> None:
    fd, folder = root
    (folder / "folder" / "full").mkdir(parents=True)
    with pytest.raises(SandboxError, match="Is a directory"):
        write_file(fd, "folder/full", b"x", ME)
    assert [entry.name for entry in (folder / "folder").iterdir()] == ["full"]


def test_written_files_are_plain_and_not_executable(root: tuple[int, Path]) -> None:
    fd, folder = root
    write_file(fd, "deep/f", b"x", ME)
    assert stat.filemode((folder / "deep" / "f").stat().st_mode) == "-rw-r--r--"
