"""Commits: exactly once per key, all or nothing, typed, and told in words when rows do not fit."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assay.errors import ConfigurationError, StoreError
from storage.names import COMMITS, DATA
from storage.rows import reward_rows, task_rows, turn_rows
from storage.store import Store
from storage.tables import TABLES
from tests.builders import a_task, a_trajectory, a_verified
from tests.storage.samples import event

LATER = timedelta(days=2)


def test_committed_rows_come_back_as_they_were_written(store: Store) -> None:
    rows = task_rows([a_task("ünï 名"), a_task("b")], "r")
    ref = store.commit("tasks", rows, key="tasks/1 ü", run_id="r")
    assert (ref.table, ref.num_rows) == ("tasks", 2)
    assert store.read(ref).to_dicts() == [{c: row[c] for c in TABLES["tasks"].columns} for row in rows]
    assert store.read(ref).schema == TABLES["tasks"].schema
    assert Store(store.objects).find("tasks", "tasks/1 ü") == ref


def test_an_unknown_key_is_not_found(store: Store) -> None:
    assert store.find("runs", "never") is None
    assert store.frame("runs").is_empty()
    assert store.frame("runs").schema == TABLES["runs"].schema
    assert store.refs("runs") == []


def test_a_second_commit_of_a_key_returns_the_first_and_writes_nothing(store: Store) -> None:
    first = store.commit("runs", [event(1)], key="k", run_id="r")
    objects = store.objects.list("")
    assert store.commit("runs", [event(2)], key="k", run_id="other") == first
    assert Store(store.objects).commit("runs", [event(3)], key="k", run_id="r") == first
    assert store.objects.list("") == objects
    assert store.frame("runs")["iteration"].to_list() == [1]


def test_equal_keys_of_different_tables_do_not_meet(local: Store) -> None:
    local.commit("runs", [event()], key="k", run_id="r")
    assert local.find("tasks", "k") is None


def test_keys_that_look_alike_stay_apart(local: Store) -> None:
    for number, key in enumerate(("a/b", "a-b", "a b", "A-b", "", "a" * 300, "a" * 299)):
        local.commit("runs", [event(number)], key=key, run_id="r")
    assert len(local.refs("runs")) == 7


def test_eight_racing_writers_of_one_key_make_one_commit_and_no_orphan(store: Store) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> Any:
        mine = Store(store.objects)
        barrier.wait()
        return mine.commit("runs", [event(number)], key="k", run_id="r")

    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(write, range(8)))
    assert len({ref.uri for ref in refs}) == 1
    assert len(store.objects.list(DATA)) == 1
    assert store.frame("runs").equals(store.read(refs[0]))


def test_no_rows_commit_too(store: Store) -> None:
    ref = store.commit("runs", [], key="nothing to do", run_id="r")
    assert ref.num_rows == 0
    assert store.find("runs", "nothing to do") == ref
    assert store.read(ref).schema == TABLES["runs"].schema
    assert store.objects.list(DATA) == []


def test_commits_are_listed_oldest_first(local: Store) -> None:
    refs = [local.commit("runs", [event(i)], key=f"k{9 - i}", run_id="r") for i in range(5)]
    assert Store(local.objects).refs("runs") == refs
    assert local.frame("runs")["iteration"].to_list() == [0, 1, 2, 3, 4]


def test_a_row_written_under_two_keys_is_there_once_and_the_first_stays(store: Store) -> None:
    store.commit("runs", [event(1, wall_s=1.0)], key="a", run_id="r")
    store.commit("runs", [event(1, wall_s=9.0), event(2)], key="b", run_id="r")
    assert store.frame("runs").select("iteration", "wall_s").rows() == [(1, 1.0), (2, 2.0)]


def test_equal_keys_in_one_commit_leave_the_first_row(local: Store) -> None:
    ref = local.commit("runs", [event(1, wall_s=1.0), event(1, wall_s=9.0)], key="a", run_id="r")
    assert (ref.num_rows, local.read(ref)["wall_s"].to_list()) == (1, [1.0])


def test_a_frame_is_taken_like_rows(local: Store) -> None:
    frame = pl.DataFrame([event(1), event(2)]).with_columns(pl.col("iteration").cast(pl.Int32))
    ref = local.commit("runs", frame, key="k", run_id="r7")
    assert local.read(ref).schema == TABLES["runs"].schema
    assert local.read(ref)["run_id"].to_list() == ["r7", "r7"]


REFUSED: dict[str, tuple[Any, str]] = {
    "a missing column": ([{k: v for k, v in event().items() if k != "stage"}], "row 0 lacks stage"),
    "an unknown column": ([event(), event(1, extra=1)], "row 1 has unknown extra"),
    "text for a number": (
        [event(), event(1, wall_s="fast")],
        r"column wall_s: row 1 is 'fast' \(str\), expected Float64",
    ),
    "a fraction for a whole number": ([event(1.5)], r"column iteration: row 0 is 1.5 \(float\), expected Int64"),
    "a truth value for a number": ([event(True)], r"column iteration: row 0 is True \(bool\)"),
    "a number for text": ([event(stage=3)], r"column stage: row 0 is 3 \(int\), expected String"),
    "NaN": ([event(), event(1, wall_s=float("nan"))], "column wall_s: row 1 holds NaN"),
    "a null in the key": (
        [event(), event(stage=None)],
        "column stage: row 1 is null, but the column is part of the key",
    ),
    "text that is not unicode": ([event(name="\ud800")], "column name: row 0 is"),
    "a frame's column of another type": (
        pl.DataFrame([event(), event(1)]).with_columns(pl.lit("x").alias("wall_s")),
        r"column wall_s: row 0 is 'x' \(String\), expected Float64",
    ),
    "a frame without a column": (pl.DataFrame([event()]).drop("name"), "the frame lacks name"),
    "a frame's number that is too large": (
        pl.DataFrame([event()]).with_columns(pl.lit(2**63, pl.UInt64).alias("iteration")),
        "column iteration: a value does not fit Int64",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_refused_by_table_column_row_and_value(local: Store, case: str) -> None:
    rows, message = REFUSED[case]
    with pytest.raises(StoreError, match=f"Table runs.*{message}"):
        local.commit("runs", rows, key="k", run_id="r")
    assert local.objects.list("") == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("logprobs", [0.5, float("nan")]),
        ("completion_ids", "ab"),
        ("completion_ids", [1, 2**40]),
        ("prompt_ids", [0.5]),
    ],
)
def test_lists_that_do_not_fit_are_refused(local: Store, column: str, value: Any) -> None:
    rows = turn_rows([a_trajectory()])
    with pytest.raises(StoreError, match=f"Table turns, column {column}: row 0"):
        local.commit("turns", [rows[0] | {column: value}], key="k", run_id="r")


TERM = {"name": "answer", "value": 1.0, "weight": 1.0, "note": ""}


@pytest.mark.parametrize("terms", [[TERM | {"value": float("nan")}], [{"name": "answer", "value": 1.0}], "ab"])
def test_reward_terms_that_are_not_whole_are_refused(local: Store, terms: Any) -> None:
    row = reward_rows([a_verified()])[0] | {"terms": terms}
    with pytest.raises(StoreError, match="Table rewards, column terms: row 0"):
        local.commit("rewards", [row], key="k", run_id="r")


def test_whole_numbers_are_taken_for_real_ones(local: Store) -> None:
    ref = local.commit("runs", [event(wall_s=2)], key="k", run_id="r")
    assert local.read(ref)["wall_s"].to_list() == [2.0]


def test_an_unknown_table_is_told_with_the_known_ones(local: Store) -> None:
    for ask in (local.frame, local.refs, local.compact):
        with pytest.raises(ConfigurationError, match=r"Unknown table 'nope'.*trajectories"):
            ask("nope")


def test_changed_bytes_are_found_when_read(local: Store) -> None:
    ref = local.commit("runs", [event()], key="k", run_id="r")
    (key,) = local.objects.list(DATA)
    data = local.objects.get(key)
    local.objects.put(key, data[:-20] + b"x" + data[-19:])
    with pytest.raises(StoreError, match="is damaged"):
        local.read(ref)


def test_a_damaged_or_newer_commit_is_told_by_name(local: Store) -> None:
    local.commit("runs", [event()], key="k", run_id="r")
    (key,) = local.objects.list(COMMITS)
    local.objects.put(key, b"{}")
    with pytest.raises(StoreError, match=rf"{key} is damaged"):
        Store(local.objects).frame("runs")
    local.objects.put(key, b'{"format": 99}')
    with pytest.raises(StoreError, match="has format 99; this Assay reads 1"):
        Store(local.objects).frame("runs")


def test_a_crash_between_data_and_commit_shows_nothing_and_is_swept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(store.objects), "put_if_absent", crash)
        with pytest.raises(KeyboardInterrupt):
            store.commit("runs", [event(1)], key="k", run_id="r")
    assert len(store.objects.list(DATA)) == 1
    assert store.frame("runs").is_empty()
    assert store.find("runs", "k") is None
    kept = store.commit("runs", [event(2)], key="k", run_id="r")
    assert store.sweep() == []
    swept = Store(store.objects, now=lambda: datetime.now(UTC) + LATER).sweep()
    assert len(swept) == 1
    assert store.read(kept)["iteration"].to_list() == [2]


def test_a_process_killed_between_data_and_commit_leaves_nothing_visible(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from storage.backends.folder import FolderStore
from storage.store import Store
from tests.storage.samples import event
FolderStore.put_if_absent = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Store.open(sys.argv[1]).commit("runs", [event(1)], key="k", run_id="r")
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, cwd=root)
    assert done.returncode == -signal.SIGKILL
    store = Store.open(str(tmp_path))
    assert len(store.objects.list(DATA)) == 1
    assert store.frame("runs").is_empty()
    store.commit("runs", [event(2)], key="k", run_id="r")
    assert store.frame("runs")["iteration"].to_list() == [2]


def test_files_of_columns_older_than_the_table_read_as_null(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLES["runs"]
    older = type(table)(
        table.name, table.meaning, ("run_id", "event"), {k: v for k, v in table.columns.items() if k != "name"}
    )
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, "runs", older)
        local.commit("runs", [{k: v for k, v in event(1).items() if k != "name"}], key="old", run_id="r")
    local.commit("runs", [event(2)], key="new", run_id="r")
    assert local.frame("runs").select("iteration", "name").rows() == [(1, None), (2, "n")]
