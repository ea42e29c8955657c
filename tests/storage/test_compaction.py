"""Compaction and sweep: fewer files, the same rows, the same commits; only what nobody reads is deleted."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from storage.backends.base import MissingKey
from storage.names import COMPACTIONS, DATA
from storage.store import Store
from tests.storage.samples import event


def store_at(store: Store, days: float) -> Store:
    """The same store, opened by another process some days later."""
    return Store(store.objects, now=lambda: datetime.now(UTC) + timedelta(days=days))


def fill(store: Store, *iterations: int) -> None:
    for i in iterations:
        store.commit("runs", [event(i), event(i, stage="rollout")], key=f"k{i}", run_id="r")


def test_merging_keeps_rows_order_commits_and_keys(store: Store) -> None:
    fill(store, *range(5))
    rows, refs = store.frame("runs"), store.refs("runs")
    assert store.compact("runs") == 5
    fresh = Store(store.objects)
    assert fresh.frame("runs").equals(rows)
    assert fresh.refs("runs") == refs
    assert len(fresh.snapshot().files["runs"]) == 1
    assert fresh.commit("runs", [event(99)], key="k3", run_id="r") == refs[3]
    assert store.compact("runs") == 0


def test_new_commits_are_read_beside_a_merged_file_and_merged_next_time(local: Store) -> None:
    fill(local, 0, 1)
    local.compact("runs")
    fill(local, 2, 3)
    assert len(local.snapshot().files["runs"]) == 3
    rows = local.frame("runs")
    assert local.compact("runs") == 3
    assert local.frame("runs").equals(rows)
    assert len(local.snapshot().files["runs"]) == 1


def test_the_snapshot_counts_commits_whatever_is_merged(local: Store) -> None:
    fill(local, 0, 1, 2)
    assert local.snapshot().id == "c_000003"
    local.compact("runs")
    assert Store(local.objects).snapshot().id == "c_000003"


def test_merged_files_stay_below_the_limit(local: Store) -> None:
    fill(local, *range(6))
    rows = local.frame("runs")
    assert local.compact("runs", max_rows=5) == 6
    assert [live.file.num_rows for live in local.snapshot().files["runs"]] == [4, 4, 4]
    assert local.compact("runs", max_rows=5) == 0
    assert local.frame("runs").equals(rows)


def test_of_racing_compactions_one_wins_and_no_row_doubles(store: Store) -> None:
    fill(store, *range(4))
    rows = store.frame("runs")
    barrier = threading.Barrier(4)

    def merge(_: int) -> int:
        mine = Store(store.objects)
        barrier.wait()
        return mine.compact("runs")

    with ThreadPoolExecutor(4) as pool:
        merged = list(pool.map(merge, range(4)))
    assert sorted(merged)[-1] == 4
    assert len(store.objects.list(DATA)) == 5
    assert store.frame("runs").equals(rows)
    assert store_at(store, 2).sweep(older_than_s=0)
    assert len(store.objects.list(DATA)) == 1
    assert store.frame("runs").equals(rows)


def test_a_commit_is_read_from_the_merged_file_once_its_own_is_swept(store: Store) -> None:
    fill(store, 0, 1, 2)
    refs = store.refs("runs")
    before = [store.read(ref) for ref in refs]
    store.compact("runs")
    assert len(store_at(store, 2).sweep()) == 3
    fresh = Store(store.objects)
    assert [fresh.read(ref).equals(rows) for ref, rows in zip(refs, before, strict=True)] == [True] * 3


def test_replaced_files_stay_for_those_who_still_read_them(local: Store) -> None:
    fill(local, 0, 1)
    late = store_at(local, 5)
    late.compact("runs")
    # The files are five days old, but were replaced just now.
    assert late.sweep() == []
    assert len(store_at(local, 7).sweep()) == 2


def test_a_merged_file_that_was_merged_again_stays_for_its_readers(local: Store) -> None:
    fill(local, 0, 1)
    local.compact("runs")
    fill(local, 2)
    late = store_at(local, 5)
    assert late.compact("runs") == 2
    assert late.sweep() == []


def test_replaced_compactions_are_swept_with_their_files(local: Store) -> None:
    fill(local, 0, 1)
    local.compact("runs")
    fill(local, 2)
    local.compact("runs")
    assert len(local.objects.list(COMPACTIONS)) == 2
    rows = local.frame("runs")
    store_at(local, 2).sweep()
    assert len(local.objects.list(COMPACTIONS)) == 1
    assert len(local.objects.list(DATA)) == 1
    assert Store(local.objects).frame("runs").equals(rows)
    fill(local, 3)
    assert Store(local.objects).compact("runs") == 2


def test_what_a_newer_version_wrote_is_left_alone(local: Store) -> None:
    local.objects.put("data/tomorrow/x-20200101T000000-12345678.parquet", b"")
    local.objects.put("data/runs/unstamped.parquet", b"")
    assert store_at(local, 2).sweep() == []


def test_rows_that_are_gone_are_told_by_commit(local: Store) -> None:
    ref = local.commit("runs", [event()], key="k", run_id="r")
    for key in local.objects.list(DATA):
        local.objects.delete(key)
    with pytest.raises(MissingKey, match="of table runs are gone"):
        local.read(ref)
