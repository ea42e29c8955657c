"""What of an agent's files may enter a verifying sandbox."""

from pathlib import Path

import pytest

from environments.verifying._sources import take_sources


def test_only_allowed_plain_sources_are_taken(tmp_path: Path) -> None:
    for name in ("src/a.py", "src/conftest.py", "src/__pycache__/a.cpython-311.pyc", "notes.txt", "src/b c.py"):
        path = tmp_path / "left" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1")
    (tmp_path / "left/src/link.py").symlink_to("/etc/passwd")
    (tmp_path / "left/src/folder").symlink_to("/etc")
    (tmp_path / "left/src/twice.py").hardlink_to(tmp_path / "left/notes.txt")
    taken = take_sources(tmp_path / "left", ["src/*"])
    assert taken.files == {"src/a.py": b"x = 1"}
    assert set(taken.refused) == {
        *("src/conftest.py", "src/__pycache__/a.cpython-311.pyc", "notes.txt", "src/b c.py", "src/link.py"),
        "src/twice.py",
    }


@pytest.mark.parametrize(
    "path",
    [
        "../a.py",
        "/a.py",
        "a//b.py",
        "./a.py",
        "a/../b.py",
        ".hidden.py",
        "a\n.py",
        "\ud800.py",
        "x" * 300,
        "",
        "Conftest.py",
        "a/PyTest.ini",
        "sitecustomize.py",
        "x.pth",
        "lib.so",
        "a.dist-info/entry_points.txt",
    ],
)
def test_names_that_could_do_harm_are_refused(path: str) -> None:
    taken = take_sources({path: b""}, ["*"])
    assert taken.files == {}
    assert path in taken.refused
