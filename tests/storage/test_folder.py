"""The local folder: nothing half-written, and clear words when the folder cannot be used."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.errors import StoreError
from storage.backends.folder import TEMPORARY, FolderStore
from storage.objects import open_object_store
from storage.store import Store
from tests.storage.samples import event

NOBODY = 65534


@contextmanager
def plain_user() -> Iterator[None]:
    """Permission bits do not bind root: act as somebody they bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A store with one commit that only its owner may write, on a path everybody may walk."""
    Store.open(str(tmp_path / "store")).commit("runs", [event()], key="k", run_id="r")
    places = [*tmp_path.parents[:3], tmp_path, tmp_path / "store"]
    before = {place: place.stat().st_mode for place in places if os.access(place, os.W_OK)}
    for place in before:
        place.chmod(place.stat().st_mode | 0o055)
    folders = [path for path in (tmp_path / "store").rglob("*") if path.is_dir()]
    for folder in [tmp_path / "store", *folders]:
        folder.chmod(0o555)
    yield tmp_path / "store"
    for folder in [tmp_path / "store", *folders]:
        folder.chmod(0o755)
    for place, mode in before.items():
        place.chmod(mode)


def test_a_read_only_folder_is_told_with_the_user_and_what_to_do(read_only: Path) -> None:
    objects = open_object_store(str(read_only))
    with plain_user():
        with pytest.raises(StoreError, match=r"Permission denied.*may read and write.*ASSAY_STORE"):
            objects.check()
        with pytest.raises(StoreError, match="Cannot write"):
            objects.put("data/x", b"1")


def test_a_read_only_store_can_still_be_read(read_only: Path) -> None:
    with plain_user():
        assert Store.open(str(read_only)).frame("runs").height == 1


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("I am a file")
    with pytest.raises(StoreError, match="must be a folder"):
        open_object_store(str(tmp_path / "store")).check()


def test_a_folder_that_cannot_be_made_is_told() -> None:
    with pytest.raises(StoreError, match="/proc"):
        open_object_store("/proc/assay/store").check()


def test_a_crash_before_the_rename_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderStore(FolderStore.Config(path=tmp_path))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        objects.put("a/b", b"half")
    assert objects.list("") == []
    assert len(objects.list(TEMPORARY)) == 1


@pytest.mark.parametrize("key", ["../out", "a//b", "/abs", "a/./b", "", "a/.."])
def test_a_key_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(StoreError, match="is not a key"):
        FolderStore(FolderStore.Config(path=tmp_path)).put(key, b"")


def test_a_file_system_without_hard_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreError, match="has no hard links"):
        open_object_store(str(tmp_path)).put_if_absent("a", b"")
    assert list((tmp_path / TEMPORARY).iterdir()) == []
