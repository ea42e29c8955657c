"""In any order of commits, retries, crashes, compactions and sweeps: the first commit of each key, nothing else."""

import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.backends.folder import FolderStore
from storage.names import DATA
from storage.store import Store
from storage.typed import typed_frame
from tests.storage.samples import event

KEYS = st.sampled_from(["a", "b", "c", "é"])
ROWS = st.lists(st.integers(0, 9), max_size=3)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), KEYS, ROWS),
        st.tuples(st.just("crash"), KEYS, ROWS),
        st.tuples(st.just("compact"), st.integers(1, 8), st.none()),
        st.tuples(st.just("sweep"), st.floats(0, 3), st.none()),
        st.tuples(st.just("reopen"), st.none(), st.none()),
    ),
    max_size=12,
)


class Crash(BaseException):
    """The process is gone."""


class Crashing(FolderStore):
    """Dies between the data and the commit object."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        raise Crash


class Clock:
    """A tenth of a day passes with every look."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def __call__(self) -> datetime:
        self.at += timedelta(days=0.1)
        return self.at


def rows_of(iterations: list[int], mark: int) -> list[dict[str, Any]]:
    return [event(i, wall_s=float(mark)) for i in iterations]


@settings(max_examples=40, deadline=None)
@given(ACTIONS)
def test_the_store_holds_the_first_commit_of_every_key(actions: list[tuple[str, Any, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = FolderStore.Config(path=folder)
        clock = Clock()
        store = Store(FolderStore(config), now=clock)
        first: dict[str, list[dict[str, Any]]] = {}
        for mark, (action, what, rows) in enumerate(actions):
            if action == "commit":
                store.commit("runs", rows_of(rows, mark), key=what, run_id="r")
                first.setdefault(what, rows_of(rows, mark))
            elif action == "crash":
                try:
                    Store(Crashing(config), now=clock).commit("runs", rows_of(rows, mark), key=what, run_id="r")
                except Crash:
                    assert what not in first
            elif action == "compact":
                store.compact("runs", max_rows=what)
            elif action == "sweep":
                store.sweep(older_than_s=what * 86_400)
            else:
                store = Store(FolderStore(config), now=clock)
        for some in (store, Store(FolderStore(config))):
            check(some, first)
        clock.at += timedelta(days=9)
        store.sweep()
        check(Store(FolderStore(config)), first)
        live = {live.file.key for live in store.snapshot().files["runs"]}
        assert set(store.objects.list(DATA)) == live


def check(store: Store, first: dict[str, list[dict[str, Any]]]) -> None:
    everything = [row for rows in first.values() for row in rows]
    assert store.frame("runs").equals(typed_frame("runs", everything, run_id="r"))
    assert len(store.refs("runs")) == len(first)
    for key, rows in first.items():
        ref = store.find("runs", key)
        assert ref is not None
        assert store.read(ref).equals(typed_frame("runs", rows, run_id="r"))
