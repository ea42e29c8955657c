"""What comes out of a folder that an agent controls: its regular files, and nothing else, whatever lies there."""

import contextlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import SandboxError
from environments.sandboxes._collect import collect, collect_tar, pack, place
from environments.sandboxes.base import Collected, CollectLimits
from tests.environments.sandboxes.archives import archive, entry
from tests.environments.sandboxes.probing import wait_until

ME = (os.geteuid(), os.getegid())
SMALL = CollectLimits(max_files=3, max_file_bytes=100, max_total_bytes=150, max_depth=2)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """The agent's folder, beside a file that is none of its business."""
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent"


def collected(agent: Path, path: str = "", limits: CollectLimits | None = None) -> Collected:
    with opened(agent) as root:
        return collect(root, path, agent.parent / "out", limits or CollectLimits())


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in files}


# --- collect ----------------------------------------------------------------------------------------------------------


def test_regular_files_come_along_with_their_permissions_below_a_private_folder(agent: Path) -> None:
    (agent / "sub").mkdir()
    (agent / "sub" / "run").write_text("#!")
    (agent / "sub" / "run").chmod(0o755)
    (agent / "a\nb").write_text("é")
    found = collected(agent)
    assert found == Collected(files=("a\nb", "sub/run"), refused={}, num_bytes=4)
    assert tree(agent.parent / "out") == {"a\nb": (0o644, "é".encode()), "sub/run": (0o755, b"#!")}
    assert (agent.parent / "out").stat().st_mode & 0o777 == 0o700


def bind(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(here)


def hole(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(9 << 20)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda f: f.symlink_to("../secret"), "not a regular file"),
        (lambda f: f.symlink_to(".."), "not a regular file"),
        (lambda f: f.symlink_to("f"), "not a regular file"),
        (lambda f: f.hardlink_to(f.parent.parent / "secret"), "2 hard links"),
        (os.mkfifo, "not a regular file"),
        (bind, "not a regular file"),
        (hole, "an eighth of a file must be really there"),
        (lambda f: f.write_bytes(bytes((64 << 20) + 1)), "67108865 bytes; a file may have 67108864"),
    ],
    ids=["link", "link to a folder", "loop", "hard link", "fifo", "socket", "sparse", "large"],
)
def test_everything_else_stays_behind_with_the_reason(agent: Path, make: Callable[[Path], None], reason: str) -> None:
    (agent / "ok").write_text("ok")
    make(agent / "f")
    found = collected(agent)
    assert found.files == ("ok",)
    assert list(found.refused) == ["f"]
    assert reason in found.refused["f"]
    assert tree(agent.parent / "out") == {"ok": (0o644, b"ok")}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_stays_behind(agent: Path) -> None:
    (agent / "f").touch(mode=0o000)
    (agent / "d").mkdir(mode=0o000)
    assert collected(agent).refused == {"d": "Permission denied", "f": "Permission denied"}


def test_a_name_that_is_not_utf8_is_refused_under_a_readable_one(agent: Path) -> None:
    Path(os.fsdecode(bytes(agent) + b"/\xff")).touch()
    assert collected(agent).refused == {"\\xff": "its name is not UTF-8"}


@pytest.mark.parametrize(
    ("files", "taken", "refused"),
    [
        ({"a": 100, "b": 101}, ("a",), {"b": "101 bytes; a file may have 100"}),
        ({"a": 100, "b": 51}, ("a",), {"b": "51 bytes; 150 in all are the most that come along"}),
        ({"a": 0, "b": 0, "c": 0, "d": 0}, ("a", "b", "c"), {"d": "3 files are the most that come along"}),
        ({"x/y/a": 1, "x/y/z/b": 1}, ("x/y/a",), {"x/y/z": "deeper than 2 folders"}),
    ],
    ids=["size", "total", "number", "depth"],
)
def test_caps_hold(agent: Path, files: dict[str, int], taken: tuple[str, ...], refused: dict[str, str]) -> None:
    for name, size in files.items():
        (agent / name).parent.mkdir(parents=True, exist_ok=True)
        (agent / name).write_bytes(bytes(size))
    found = collected(agent, limits=SMALL)
    assert (found.files, found.refused) == (taken, refused)


def test_of_very_many_entries_only_some_are_looked_at(agent: Path) -> None:
    for number in range(100):
        (agent / str(number)).symlink_to("x")
    found = collected(agent, limits=SMALL)
    assert len(found.refused) == 31
    assert found.refused["."] == "more than 30 entries: the rest is not looked at"


def test_a_file_that_grows_all_the_time_does_not_come_along(agent: Path) -> None:
    (agent / "log").write_bytes(bytes(30 << 20))  # takes longer to read than to write to
    stop = threading.Event()

    def grow() -> None:
        with open(agent / "log", "ab", buffering=0) as log:
            while not stop.is_set() and log.tell() < 60 << 20:
                log.write(b"x" * 4096)

    writer = threading.Thread(target=grow)
    writer.start()
    wait_until(lambda: (agent / "log").stat().st_size > 30 << 20)
    found = collected(agent)
    stop.set()
    writer.join()
    assert found.files == ()
    assert "log" in found.refused
    assert tree(agent.parent / "out") == {}


def test_while_names_are_exchanged_nothing_from_outside_comes_along(agent: Path) -> None:
    (agent.parent / "other").mkdir()
    (agent.parent / "other" / "f").write_text("hunter2")
    (agent / "d").mkdir()
    (agent / "d" / "f").write_text("inside")
    (agent / "link").symlink_to("../other")
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            for old, new in (("d", "t"), ("link", "d"), ("d", "link"), ("t", "d")):
                os.rename(agent / old, agent / new)

    swapper = threading.Thread(target=exchange)
    swapper.start()
    try:
        for _ in range(200):
            collected(agent)
            assert b"hunter2" not in [data for _, data in tree(agent.parent / "out").values()]
            shutil.rmtree(agent.parent / "out")
    finally:
        stop.set()
        swapper.join()


@pytest.mark.parametrize("path", ["gone", "file", "up", "file/x"])
def test_a_folder_that_is_not_there_is_the_agents_doing(agent: Path, path: str) -> None:
    (agent / "file").touch()
    (agent / "up").symlink_to("..")
    found = collected(agent, path)
    assert found.files == ()
    assert found.refused["."] in ("No such file or directory", "Not a directory")


@pytest.mark.parametrize("path", ["..", "/etc", "a/../../b"])
def test_a_path_that_leads_elsewhere_is_an_error(agent: Path, path: str) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        collected(agent, path)


def test_an_existing_target_is_never_touched(agent: Path) -> None:
    (agent / "f").touch()
    (agent.parent / "out").mkdir()
    with pytest.raises(SandboxError, match="exists already"):
        collected(agent)
    assert tree(agent.parent / "out") == {}


def test_a_target_that_cannot_be_made_is_an_error(agent: Path) -> None:
    with opened(agent) as root, pytest.raises(SandboxError, match="cannot be collected into"):
        collect(root, "", agent.parent / "no" / "such", CollectLimits())


# --- and back ---------------------------------------------------------------------------------------------------------

trees = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "-c", "é", "d e", "f\ng"]), min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=50), st.sampled_from([0o644, 0o755, 0o600, 0o440])),
    max_size=6,
)


def build(folder: Path, files: dict[str, tuple[bytes, int]]) -> None:
    for name, (data, mode) in files.items():
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            (folder / name).chmod(mode)


@settings(max_examples=60, deadline=None)
@given(files=trees)
def test_what_is_placed_or_packed_is_collected_the_same(files: dict[str, tuple[bytes, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "source").mkdir()
        (base / "work").mkdir()
        build(base / "source", files)
        (base / "source" / "link").symlink_to("a")
        with opened(base / "work") as root:
            place(base / "source", root, "deep/er", ME)
            found = collect(root, "deep/er", base / "out", CollectLimits())
        again = collect_tar(io.BytesIO(pack(base / "source")), base / "again", CollectLimits())
        (base / "source" / "link").unlink()
        expected = {path: (mode | 0o600, data) for path, (mode, data) in tree(base / "source").items()}
        assert tree(base / "out") == tree(base / "again") == expected
        assert found == again
        assert found.files == tuple(sorted(expected))


def test_placed_folders_keep_their_permissions_and_lose_set_id_bits(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "s" / "shut").mkdir(parents=True)
    (tmp_path / "s" / "shut" / "f").touch()
    (tmp_path / "s" / "shut" / "f").chmod(0o4755)
    (tmp_path / "s" / "shut").chmod(0o2555)
    with opened(agent) as root:
        place(tmp_path / "s", root, "", ME)
    assert (agent / "shut").stat().st_mode & 0o7777 == 0o555
    assert (agent / "shut" / "f").stat().st_mode & 0o7777 == 0o755


def test_nothing_is_placed_through_a_link(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "s" / "d").mkdir(parents=True)
    (tmp_path / "s" / "d" / "secret").write_text("overwritten")
    (agent / "d").symlink_to("..")
    with opened(agent) as root, pytest.raises(SandboxError, match="Not a directory"):
        place(tmp_path / "s", root, "", ME)
    assert (tmp_path / "secret").read_text() == "hunter2"


def test_a_source_that_is_no_folder_is_an_error(agent: Path, tmp_path: Path) -> None:
    with opened(agent) as root, pytest.raises(SandboxError, match="no folder"):
        place(tmp_path / "secret", root, "", ME)
    with pytest.raises(SandboxError, match="no folder"):
        pack(tmp_path / "none")


# --- from a tar -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (entry("../f", b"x"), "leads out"),
        (entry("d/../../f", b"x"), "leads out"),
        (entry("/f", b"x"), "leads out"),
        (entry("f", type=tarfile.SYMTYPE, linkname=".."), "not a regular file"),
        (entry("f", type=tarfile.CHRTYPE), "not a regular file"),
        (entry("f", type=tarfile.FIFOTYPE), "not a regular file"),
        (entry("f", type=tarfile.LNKTYPE, linkname="../secret"), "several hard links"),
        (entry("ok/f", b"x"), "its name is taken"),
        (entry("ok", b"x"), "its name is taken"),
        (entry("x" * 300, b"x"), "File name too long"),
        (entry("/".join("x" * 99), b"x"), "deeper than 64 folders"),
        (entry("\udcff", b"x"), "not UTF-8"),
    ],
    ids=[
        "up",
        "up later",
        "absolute",
        "link",
        "device",
        "fifo",
        "hard link",
        "below",
        "twice",
        "long",
        "deep",
        "bytes",
    ],
)
def test_hostile_entries_of_an_archive_stay_behind(
    agent: Path, hostile: tuple[tarfile.TarInfo, bytes], reason: str
) -> None:
    stream = archive(entry("ok", b"ok"), hostile, entry("last", b"last"))
    found = collect_tar(io.BytesIO(stream), agent / "out", CollectLimits())
    assert found.files == ("last", "ok")
    assert any(reason in why for why in found.refused.values())
    assert tree(agent) == {"out/ok": (0o644, b"ok"), "out/last": (0o644, b"last")}


def test_two_names_of_one_file_both_stay_behind(agent: Path) -> None:
    stream = archive(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="./a"))
    found = collect_tar(io.BytesIO(stream), agent / "out", CollectLimits())
    assert (found.files, set(found.refused), found.num_bytes) == ((), {"a", "b"}, 0)
    assert tree(agent) == {}


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(0, 4000), noise=st.binary(max_size=8), at=st.integers(0, 4000))
def test_a_damaged_archive_counts_as_far_as_it_goes(cut: int, noise: bytes, at: int) -> None:
    whole = archive(entry("a", b"a" * 600), entry("b" * 120, b"b" * 600))
    stream = (whole[:at] + noise + whole[at + len(noise) :])[:cut]
    with tempfile.TemporaryDirectory() as name:
        found = collect_tar(io.BytesIO(stream), Path(name) / "out", CollectLimits())
        assert set(tree(Path(name))) == {f"out/{file}" for file in found.files}
        if cut < 3072:
            assert "archive" in found.refused["."]


def test_a_header_that_claims_gigabytes_is_not_believed(agent: Path) -> None:
    info, _ = entry("x", type=tarfile.XHDTYPE, size=8 << 30)
    stream = io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(2 << 20))
    found = collect_tar(stream, agent / "out", CollectLimits())
    assert "headers of one entry" in found.refused["."]
