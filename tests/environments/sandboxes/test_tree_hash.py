"""The digest of a folder: it changes exactly when what the folder holds does, and only changes are read."""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments.sandboxes import _tree_hash
from environments.sandboxes._tree_hash import TreeHash, differences

A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # sha256 of "a"


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    yield fd
    os.close(fd)


def listed(folder: Path, hasher: TreeHash | None = None) -> dict[str, str]:
    with opened(folder) as root:
        return (hasher or TreeHash()).listing(root)


def digested(folder: Path) -> str:
    with opened(folder) as root:
        return TreeHash().digest(root)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """file `f` with "a", folder `d` with file `g`, link `l`."""
    (tmp_path / "t" / "d").mkdir(parents=True, mode=0o755)
    for name in ("f", "d/g"):
        (tmp_path / "t" / name).write_text("a")
        (tmp_path / "t" / name).chmod(0o644)
    (tmp_path / "t" / "l").symlink_to("/etc/passwd")
    return tmp_path / "t"


def test_a_listing_tells_kind_rights_and_content_and_follows_no_link(tree: Path) -> None:
    os.mkfifo(tree / "p", 0o600)
    expected = {"d": "folder 755", "d/g": f"file 644 {A}", "f": f"file 644 {A}", "l": "link to /etc/passwd"}
    assert listed(tree) == {**expected, "p": "fifo 600"}


def test_neither_times_nor_caches_of_python_count(tree: Path) -> None:
    before = digested(tree)
    os.utime(tree / "f", (1, 1))
    for name in ("__pycache__", "d/.pytest_cache"):
        (tree / name).mkdir()
        (tree / name / "x").touch()
    assert digested(tree) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: (t / "f").write_text("b"), "'f' was file 644 .* and is file 644 "),
        (lambda t: (t / "f").chmod(0o755), "'f' was file 644 .* and is file 755 "),
        (lambda t: (t / "d").chmod(0o700), "'d' was folder 755 and is folder 700"),
        (lambda t: (t / "n").mkdir(), "'n' is new: folder"),
        (lambda t: (t / "d" / "g").unlink(), "'d/g' is gone: it was file 644 "),
        (
            lambda t: (t / "l").unlink() or (t / "l").symlink_to("/etc"),
            "'l' was link to /etc/passwd and is link to /etc",
        ),
        (lambda t: (t / "f").unlink() or os.mkfifo(t / "f", 0o644), "'f' was file 644 .* and is fifo 644"),
    ],
    ids=["content", "rights", "rights of a folder", "new", "gone", "link", "kind"],
)
def test_every_change_is_seen_and_said(tree: Path, change: Callable[[Path], object], said: str) -> None:
    hasher = TreeHash()
    before, digest = listed(tree, hasher), digested(tree)
    change(tree)
    (told,) = differences(before, listed(tree, hasher))
    assert re.match(said, told)
    assert digested(tree) != digest


names = st.sampled_from(["a", "b", "ab", "a\nb", "é", "a b", "a/b", "b/a"])
trees = st.dictionaries(names, st.sampled_from([b"", b"a", b"b", b"a\0b"]), max_size=4)


@settings(max_examples=80, deadline=None)
@given(first=trees, second=trees)
def test_digests_are_equal_exactly_when_listings_are(first: dict[str, bytes], second: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as base:
        for name, files in (("1", first), ("2", second)):
            for path, data in {"x": b"", **files}.items():
                with contextlib.suppress(NotADirectoryError, IsADirectoryError, FileExistsError):
                    Path(base, name, path).parent.mkdir(parents=True, exist_ok=True)
                    Path(base, name, path).write_bytes(data)
        one, two = listed(Path(base, "1")), listed(Path(base, "2"))
        assert (one == two) == (digested(Path(base, "1")) == digested(Path(base, "2"))) == (not differences(one, two))


def test_after_one_change_one_file_is_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    really = _tree_hash._read_digest
    monkeypatch.setattr(_tree_hash, "_read_digest", lambda fd, name: read.append(name) or really(fd, name))
    time.sleep(0.1)  # files this young are not remembered: the clock of file systems is coarse
    hasher = TreeHash()
    listed(tree, hasher)
    assert sorted(read) == ["f", "g"]
    (tree / "f").write_text("b")
    time.sleep(0.1)
    listed(tree, hasher)
    assert sorted(read) == ["f", "f", "g"]
    listed(tree, hasher)
    assert len(read) == 3


def test_a_rewrite_of_the_same_size_that_sets_back_its_time_is_seen(tree: Path) -> None:
    time.sleep(0.1)
    hasher = TreeHash()
    before, times = listed(tree, hasher), (tree / "f").stat()
    (tree / "f").write_text("b")
    os.utime(tree / "f", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert len(differences(before, listed(tree, hasher))) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_listed_as_such(tree: Path) -> None:
    (tree / "f").chmod(0o000)
    (tree / "d").chmod(0o000)
    assert listed(tree) == {"d": "folder 000 unreadable", "f": "file 000 unreadable", "l": "link to /etc/passwd"}
    (tree / "d").chmod(0o755)


def test_a_file_that_is_nearly_all_hole_takes_no_time(tree: Path) -> None:
    def write(size: int, text: bytes) -> str:
        with open(tree / "h", "wb") as file:
            file.truncate(size)
            file.seek(1 << 40)
            file.write(text)
        return listed(tree)["h"]

    start = time.monotonic()
    assert len({write(1 << 41, b"a"), write(1 << 41, b"b"), write((1 << 41) + 1, b"a")}) == 3
    assert write(1 << 41, b"a") == write(1 << 41, b"a")
    assert time.monotonic() - start < 5


def test_very_deep_folders_end_somewhere(tree: Path) -> None:
    here = os.getcwd()
    os.chdir(tree)
    for _ in range(200):
        os.mkdir("x")
        os.chdir("x")
    os.chdir(here)
    assert "too deep" in listed(tree)["/".join(["x"] * 129)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_removed_entry_of_an_overlay_is_a_kind_of_its_own(tree: Path) -> None:
    try:
        os.mknod(tree / "w", 0o020000, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("this root may not make device nodes")
    assert listed(tree)["w"] == "whiteout 000"
