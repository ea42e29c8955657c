"""Images and layers: unpacked once, never outside of their folder, and never in part."""

import bz2
import gzip
import lzma
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import SandboxError
from environments.sandboxes._images import Layer, resolve
from tests.environments.sandboxes.archives import (
    Entry,
    archive,
    docker_archive,
    entry,
    folder,
    hardlink,
    oci_archive,
    symlink,
)
from tests.environments.sandboxes.probing import wait_until

ROOTFS = archive(
    folder("usr"), folder("usr/bin"), entry("usr/bin/sh", b"#!", mode=0o755), symlink("bin", "/usr/bin"), folder("tmp")
)
LOWER = archive(entry("etc/a", b"1"), entry("etc/b", b"1"), entry("opt/x/old", b"1"), entry("opt/y", b"1"))
UPPER = archive(
    entry("etc/.wh.a"),
    entry("etc/b", b"2"),
    entry("opt/x/new", b"2"),
    entry("opt/x/.wh..wh..opq"),
    entry(".wh..wh.plnk", b"2"),
)
MERGED = {"etc": "", "etc/b": "2", "opt": "", "opt/x": "", "opt/x/new": "2", "opt/y": "1"}


def resolved(tmp_path: Path, data: bytes, **caps: int) -> Layer:
    (tmp_path / "image.tar").write_bytes(data)
    return resolve(str(tmp_path / "image.tar"), tmp_path / "cache", **caps)


def content(layer: Layer) -> dict[str, str]:
    """Path -> text of a file, `-> target` of a link, nothing for a folder."""
    found = {}
    for path in sorted(Path(layer.path).rglob("*")):
        text = f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[str(path.relative_to(layer.path))] = text
    return found


def kept(cache: Path) -> list[str]:
    """What is in the cache besides its lock."""
    return sorted(path.name for path in cache.iterdir() if path.name != ".lock") if cache.exists() else []


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_root_file_system_is_unpacked_with_its_links_as_they_are(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    layer = resolved(tmp_path, compress(ROOTFS))
    assert content(layer) == {"bin": "-> /usr/bin", "tmp": "", "usr": "", "usr/bin": "", "usr/bin/sh": "#!"}
    assert os.stat(f"{layer.path}/usr/bin/sh").st_mode & 0o777 == 0o755
    assert Path(layer.path) == tmp_path / "cache" / layer.digest
    assert kept(tmp_path / "cache") == [layer.digest]


@pytest.mark.parametrize("make", [docker_archive, oci_archive])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("compress_layers", [bytes, gzip.compress])
def test_layers_of_an_image_hide_and_replace_what_is_below(
    tmp_path: Path,
    make: Callable[..., bytes],
    compress: Callable[[bytes], bytes],
    compress_layers: Callable[[bytes], bytes],
) -> None:
    data = compress(make(compress_layers(LOWER), compress_layers(UPPER)))
    assert content(resolved(tmp_path, data)) == MERGED


def test_equal_layers_of_an_old_image_are_links_to_each_other(tmp_path: Path) -> None:
    manifest = b'[{"RepoTags": null, "Layers": ["a/layer.tar", "b/layer.tar"]}]'
    data = archive(
        entry("a/layer.tar", LOWER), symlink("b/layer.tar", "../a/layer.tar"), entry("manifest.json", manifest)
    )
    assert set(content(resolved(tmp_path, data))) >= {"etc/a", "opt/y"}


def test_a_later_layer_changes_kinds(tmp_path: Path) -> None:
    lower = archive(entry("file", b"1"), entry("dir/x", b"1"), symlink("link", "/etc"), entry("gone/x"))
    upper = archive(entry("file/x", b"2"), entry("dir", b"2"), folder("link"), entry("link/x", b"2"), entry(".wh.gone"))
    with pytest.raises(SandboxError, match="'file', which is a link or a file"):
        resolved(tmp_path, docker_archive(lower, upper))
    upper = archive(folder("file"), entry("dir", b"2"), folder("link"), entry("link/x", b"2"), entry(".wh.gone"))
    assert content(resolved(tmp_path, docker_archive(lower, upper))) == {
        "file": "",
        "dir": "2",
        "link": "",
        "link/x": "2",
    }


def test_a_later_write_to_one_of_two_hard_links_leaves_the_other(tmp_path: Path) -> None:
    data = docker_archive(archive(entry("a", b"1"), hardlink("b", "./a")), archive(entry("b", b"2")))
    assert content(resolved(tmp_path, data)) == {"a": "1", "b": "2"}


def test_special_files_and_special_rights_are_left_out(tmp_path: Path) -> None:
    layer = resolved(
        tmp_path,
        archive(
            entry("su", b"x", mode=0o6755, uid=0, gid=0),
            entry("shut", b"x", mode=0o000, uid=4242),
            folder("d", uid=4242),
            entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
            entry("disk", type=tarfile.BLKTYPE),
            entry("pipe", type=tarfile.FIFOTYPE),
        ),
    )
    modes = {path.name: stat.filemode(path.stat().st_mode) for path in Path(layer.path).iterdir()}
    assert modes == {"su": "-rwxr-xr-x", "shut": "-rw-------", "d": "drwxr-xr-x"}
    assert {path.stat().st_uid for path in Path(layer.path).rglob("*")} == {os.geteuid()}


def test_a_folder_without_rights_can_be_filled_and_removed(tmp_path: Path) -> None:
    layer = resolved(tmp_path, archive(entry("d", type=tarfile.DIRTYPE, mode=0), entry("d/f", b"1", mode=0)))
    assert content(layer) == {"d": "", "d/f": "1"}
    shutil.rmtree(layer.path)


def test_times_are_kept_for_the_caches_of_python(tmp_path: Path) -> None:
    layer = resolved(tmp_path, archive(entry("a.py", b"", mtime=1_000_000_000)))
    assert os.stat(f"{layer.path}/a.py").st_mtime == 1_000_000_000


# --- nothing outside --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        ([entry("../f", b"x")], "contains '..'"),
        ([entry("a/../../f", b"x")], "contains '..'"),
        ([entry("/f", b"x")], "is absolute"),
        ([symlink("d", ".."), entry("d/f", b"x")], "its way leads through 'd'"),
        ([symlink("d", "/"), folder("d/new")], "its way leads through 'd'"),
        ([hardlink("f", "../secret")], "contains '..'"),
        ([hardlink("f", "/etc/passwd")], "is absolute"),
        ([symlink("d", ".."), hardlink("f", "d/secret")], "no file inside"),
        ([hardlink("f", "gone")], "no file inside"),
        ([symlink("d", ".."), entry("d/.wh.secret"), entry("d/x", b"x")], "its way leads through 'd'"),
        ([entry("/".join("x" * 200), b"x")], "its path is longer"),
        ([entry("x" * 300, b"x")], "File name too long"),
    ],
    ids=[
        *("up", "up later", "absolute", "by link", "folder by link", "hard link up", "hard link to a host file"),
        *("hard link by link", "hard link to nothing", "whiteout by link", "deep", "long"),
    ],
)
def test_what_leads_outside_is_refused_and_nothing_stays(tmp_path: Path, hostile: list[Entry], reason: str) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "secret").write_text("hunter2")
    with pytest.raises(SandboxError, match=reason) as raised:
        resolved(tmp_path, archive(entry("ok", b"ok"), *hostile))
    assert "image.tar" in str(raised.value)
    assert kept(tmp_path / "cache") == ["secret"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "image.tar"]


def test_a_link_that_is_replaced_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    layer = resolved(tmp_path, archive(symlink("f", str(tmp_path / "secret")), entry("f", b"new")))
    assert content(layer) == {"f": "new"}
    assert (tmp_path / "secret").read_text() == "hunter2"


paths = st.lists(st.sampled_from(["a", "b", "..", ".", ".wh.a", ".wh..wh..opq", "", "secret"]), max_size=4).map(
    "/".join
)
entries = st.one_of(
    st.builds(entry, paths, st.just(b"evil")),
    st.builds(folder, paths),
    st.builds(symlink, paths, st.sampled_from(["..", "../..", "a", "b", "/", "../../../secret"])),
    st.builds(hardlink, paths, paths | st.sampled_from(["../../secret", "b/secret"])),
)


@settings(max_examples=200, deadline=None)
@given(lower=st.lists(entries, max_size=6), upper=st.lists(entries, max_size=6))
def test_no_archive_ever_changes_anything_outside(lower: list[Entry], upper: list[Entry]) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "cache").mkdir()
        for place in (base, base / "cache"):
            (place / "secret").write_text("hunter2")
        try:
            layer = resolved(base, docker_archive(archive(*lower), archive(*upper)))
        except SandboxError:
            assert kept(base / "cache") == ["secret"]
        else:
            assert kept(base / "cache") == sorted([layer.digest, "secret"])
        assert sorted(path.name for path in base.iterdir()) == ["cache", "image.tar", "secret"]
        for place in (base, base / "cache"):
            status = (place / "secret").stat()
            assert ((place / "secret").read_text(), status.st_nlink) == ("hunter2", 1)


# --- damage and caps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no tar"),
        (b"x" * 2000, "no tar"),
        (archive(), "empty archive"),
        (ROOTFS[:1600], "end"),
        (ROOTFS[:2048], "end mark is missing"),
        (gzip.compress(ROOTFS)[:-20], "damaged"),
        (gzip.compress(ROOTFS)[:50] + b"xx" + gzip.compress(ROOTFS)[52:], "damaged"),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "zstd"),
        (docker_archive(LOWER, tags=("one:1", "two:2")), "holds 2 images .*one:1.*two:2.*exactly one"),
        (archive(entry("manifest.json", b"[{}]")), "manifest is not as it should be"),
        (archive(entry("manifest.json", b'[{"Layers": ["gone"]}]')), "'gone', which is not in the archive"),
        (archive(entry("oci-layout"), entry("index.json", b"[" * 100_000)), "manifest is not as it should be"),
        (docker_archive(LOWER, LOWER[:700]), "end"),
    ],
    ids=[
        *("nothing", "garbage", "no entry", "cut in a header", "cut between", "cut gzip", "bad gzip", "zstd"),
        *("two images", "manifest", "no layer", "nested json", "cut layer"),
    ],
)
def test_a_bad_archive_is_refused_and_nothing_stays(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(SandboxError, match=f"Cannot use '.*image.tar' as an image or layer: .*{reason}"):
        resolved(tmp_path, data)
    assert kept(tmp_path / "cache") == []


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("make", [bytes, docker_archive])
def test_a_bomb_is_stopped_while_it_is_read(
    tmp_path: Path, make: Callable[[bytes], bytes], compress: Callable[[bytes], bytes]
) -> None:
    data = compress(make(archive(entry("zeros", bytes(3 << 20)))))
    with pytest.raises(SandboxError, match="unpacks to more than 1048576 bytes"):
        resolved(tmp_path, data, max_bytes=1 << 20)
    assert kept(tmp_path / "cache") == []


def test_too_many_entries_are_refused_also_as_folders_on_the_way(tmp_path: Path) -> None:
    for data in (archive(*(entry(str(n)) for n in range(11))), archive(entry("/".join("abcdefghijk")))):
        with pytest.raises(SandboxError, match=r"more than .*10 entries"):
            resolved(tmp_path, data, max_entries=10)
    assert resolved(tmp_path, archive(*(entry(str(n)) for n in range(10))), max_entries=10)


def test_a_missing_source_and_a_source_that_is_no_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for source, reason in ((tmp_path / "none", "No such file"), (tmp_path / "fifo", "neither a folder nor a file")):
        with pytest.raises(SandboxError, match=reason):
            resolve(str(source), tmp_path / "cache")
    with pytest.raises(SandboxError, match="no path"):
        resolve("a\0b", tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_source_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "image.tar").touch(mode=0o000)
    with pytest.raises(SandboxError, match="Permission denied"):
        resolve(str(tmp_path / "image.tar"), tmp_path / "cache")


FULL = """
import resource, sys
from pathlib import Path
from environments.sandboxes._images import resolve
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
resolve(sys.argv[1], Path(sys.argv[2]))
"""


def test_when_the_disk_takes_no_more_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(archive(entry("large", bytes(2 << 20))))
    argv = [sys.executable, "-c", FULL, str(tmp_path / "image.tar"), str(tmp_path / "cache")]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert "SandboxError" in done.stderr
    assert "File too large" in done.stderr
    assert kept(tmp_path / "cache") == []


# --- once -------------------------------------------------------------------------------------------------------------


def test_the_second_time_takes_no_time(tmp_path: Path) -> None:
    layer = resolved(tmp_path, archive(entry("f", bytes(8 << 20))))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert resolve(str(tmp_path / "image.tar"), tmp_path / "cache") == layer
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_another_content_is_another_layer_and_a_lost_cache_is_made_again(tmp_path: Path) -> None:
    first = resolved(tmp_path, ROOTFS)
    second = resolved(tmp_path, LOWER)
    assert kept(tmp_path / "cache") == sorted([first.digest, second.digest])
    shutil.rmtree(tmp_path / "cache")
    assert resolve(str(tmp_path / "image.tar"), tmp_path / "cache") == second
    assert Path(second.path).is_dir()


def test_a_folder_is_used_in_place_and_told_apart_by_content_alone(tmp_path: Path) -> None:
    for name, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(text)
    (tmp_path / "link").symlink_to("a")
    a, b, c, link = (resolve(str(tmp_path / name), tmp_path / "cache") for name in ("a", "b", "c", "link"))
    assert a.path == str(tmp_path / "a")
    assert (a.digest == b.digest, a.digest == c.digest, link == a) == (True, False, True)
    assert kept(tmp_path / "cache") == []


AT_ONCE = """
import sys
from pathlib import Path
from environments.sandboxes._images import resolve
print(resolve(sys.argv[1], Path(sys.argv[2])).path)
"""


def start(tmp_path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", AT_ONCE, str(tmp_path / "image.tar"), str(tmp_path / "cache")]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_get_one_whole_layer(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(archive(*(entry(f"d/{n}", b"x") for n in range(2000))))
    running = [start(tmp_path) for _ in range(3)]
    answers = {process.communicate(timeout=60)[0].strip() for process in running}
    (path,) = answers
    assert len(list(Path(path, "d").iterdir())) == 2000
    assert kept(tmp_path / "cache") == [Path(path).name]


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    many = archive(*(entry(f"d{n % 100}/{n}", b"x") for n in range(20_000)))
    (tmp_path / "image.tar").write_bytes(many)
    process = start(tmp_path)
    wait_until(lambda: list((tmp_path / "cache").glob(".unpacking-*/layer/d1")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(kept(tmp_path / "cache")) == 1
    layer = resolved(tmp_path, ROOTFS)
    assert kept(tmp_path / "cache") == [layer.digest]
