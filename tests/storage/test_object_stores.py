"""What every object store must do, run over a folder and a real S3 server."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigurationError, StoreError
from assay.registry import known_plugins
from assay.settings import Settings
from storage.backends.base import MissingKey, ObjectStore
from storage.objects import open_object_store


def test_what_was_put_is_read_back(objects: ObjectStore) -> None:
    objects.put("a/b.bin", b"\x00one")
    objects.put("a/b.bin", b"two")
    objects.put("empty", b"")
    assert objects.get("a/b.bin") == b"two"
    assert objects.get("empty") == b""
    assert objects.exists("a/b.bin")
    assert not objects.exists("a/c.bin")
    assert not objects.exists("a")


def test_keys_are_listed_by_prefix_and_sorted(objects: ObjectStore) -> None:
    for key in ("b/2", "a/x/1", "a/1", "b/10", "bb/1"):
        objects.put(key, b"-")
    assert objects.list("") == ["a/1", "a/x/1", "b/10", "b/2", "bb/1"]
    assert objects.list("b/") == ["b/10", "b/2"]
    assert objects.list("b/1") == ["b/10"]
    assert objects.list("nothing/") == []


def test_a_missing_key_is_an_error_of_its_own(objects: ObjectStore) -> None:
    with pytest.raises(MissingKey, match="nowhere"):
        objects.get("nowhere")


def test_deleting_twice_is_no_error(objects: ObjectStore) -> None:
    objects.put("a", b"1")
    objects.delete("a")
    objects.delete("a")
    assert objects.list("") == []


def test_a_second_write_if_absent_changes_nothing(objects: ObjectStore) -> None:
    assert objects.put_if_absent("c/1", b"first")
    assert not objects.put_if_absent("c/1", b"second")
    assert objects.get("c/1") == b"first"


def test_of_racing_writers_exactly_one_wins(objects: ObjectStore) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> bool:
        barrier.wait()
        return objects.put_if_absent("race", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert won.count(True) == 1
    assert objects.get("race") == str(won.index(True)).encode()


def test_names_may_hold_spaces_and_any_language(objects: ObjectStore) -> None:
    key = "dätä/名 a+b%20.bin"
    objects.put(key, b"x")
    assert objects.get(key) == b"x"
    assert objects.list("dätä/") == [key]


def test_the_check_of_a_good_store_passes_and_leaves_nothing(objects: ObjectStore) -> None:
    objects.create()
    objects.create()
    objects.check()
    assert objects.list("") == []


class Forgetful:
    """A store that takes the condition and ignores it, as some S3 servers do."""

    def __init__(self, real: ObjectStore) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._real.put(key, data)
        return True


def test_the_check_finds_a_server_that_ignores_conditional_writes(objects: ObjectStore) -> None:
    from storage.backends._probe import probe

    with pytest.raises(StoreError, match="ignores conditional writes"):
        probe(Forgetful(objects))  # type: ignore[arg-type]
    assert objects.list("") == []


def test_every_backend_is_covered_here() -> None:
    assert known_plugins("store") == ["folder", "s3"]


def test_an_address_picks_the_backend(tmp_path: Path) -> None:
    machine = Settings(_env_file=None, home=tmp_path)
    assert open_object_store(machine=machine).root == str(tmp_path / "store")
    assert open_object_store(f"file://{tmp_path}/a%20b").root == str(tmp_path / "a b")
    assert open_object_store("s3://bucket/a/b/", machine).uri("k") == "s3://bucket/a/b/k"
    with pytest.raises(ConfigurationError, match="unknown scheme 'gs'"):
        open_object_store("gs://bucket", machine)
    with pytest.raises(ConfigurationError, match="names no bucket"):
        open_object_store("s3://", machine)
