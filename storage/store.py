"""The tables: rows go in by commit, exactly once per key, and come out as polars frames.

    commit(rows, key) -> data/<table>/...parquet -> commits/<table>/<part>.json (written once) -> DatasetRef

Only the second write makes rows visible. A retry finds the commit and returns it; of racing writers one wins and
the others take their files back; a crash in between leaves a file that nothing names, which `sweep` removes.
"""

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl

from assay.records import DatasetRef
from storage.backends.base import MissingKey, ObjectStore
from storage.commits import Commit, Snapshot, encode
from storage.compaction import compact, sweep
from storage.files import read_bytes, write_file
from storage.log import Log, each
from storage.names import commit_key, part_of
from storage.objects import open_object_store
from storage.tables import TABLES
from storage.typed import Rows, empty_frame, from_parquet, part_rows, table_named, typed_frame

DAY_S = 86_400.0


def utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """Typed tables over an object store. Safe to share between threads; cheap to open in every process.

    Errors: StoreUnreachable (retry helps), StoreError (rows that do not fit, a store that refuses, damaged objects),
    ConfigurationError (no such table).
    """

    def __init__(self, objects: ObjectStore, *, now: Callable[[], datetime] = utc_now) -> None:
        self.objects = objects
        self._now = now
        self._log = Log(objects)

    @classmethod
    def open(cls, uri: str | None = None) -> "Store":
        """The store at an address (a folder or s3://bucket/prefix), or the one in the settings."""
        return cls(open_object_store(uri))

    @property
    def uri(self) -> str:
        """Where it is, for people."""
        return self.objects.root

    def commit(self, table: str, rows: Rows, *, key: str, run_id: str) -> DatasetRef:
        """Write rows once under `key`; when the key was committed before, return that commit and write nothing.

        Rows have exactly the table's columns (`run_id` may be left out); of rows with equal table keys the first
        stays. An empty list commits too: it says that the work was done.
        """
        found = self.find(table, key)
        if found is not None:
            return found
        commit = self._written(table, key, run_id, typed_frame(table, rows, run_id=run_id))
        if self.objects.put_if_absent(commit_key(table, commit.part), encode(commit)):
            self._log.remember(commit)
            return self._ref(commit)
        if commit.file is not None:
            self.objects.delete(commit.file.key)
        return self._ref(self._log.commit(table, commit.part))

    def find(self, table: str, key: str) -> DatasetRef | None:
        """The commit under a key, or None."""
        try:
            return self._ref(self._log.commit(table_named(table).name, part_of(key)))
        except MissingKey:
            return None

    def read(self, ref: DatasetRef) -> pl.DataFrame:
        """The rows of one commit, as they were written. StoreError when they are gone or their bytes changed."""
        commit = self._log.commit(ref.table, ref.part)
        if commit.file is None:
            return empty_frame(ref.table)
        try:
            return from_parquet(ref.table, read_bytes(self.objects, commit.file))
        except MissingKey:
            return self._read_merged(commit)

    def refs(self, table: str) -> list[DatasetRef]:
        """All commits of a table, oldest first."""
        latest = self._log.latest(table_named(table).name)
        return [self._ref(commit) for commit in self._log.commits(table, latest)]

    def frame(self, table: str) -> pl.DataFrame:
        """All committed rows, oldest commit first; of rows with equal table keys the first one stays."""
        table_named(table)
        try:
            frames = self._live_frames(table)
        except MissingKey:
            # A compaction and a sweep came between the listing and the reading: the new list has them all.
            frames = self._live_frames(table)
        if not frames:
            return empty_frame(table)
        return pl.concat(frames).unique(TABLES[table].key, keep="first", maintain_order=True)

    def snapshot(self) -> Snapshot:
        """The live files of all tables now, and how many commits there are."""
        return self._log.snapshot()

    def compact(self, table: str, *, max_rows: int = 500_000) -> int:
        """Merge small files into files of up to `max_rows` rows; returns how many files were merged.

        Changes no row and no commit. Safe to repeat and to race: the loser takes its files back and returns 0.
        The old files stay until a sweep.
        """
        return compact(self.objects, self._log, table_named(table).name, max_rows, self._now())

    def sweep(self, *, older_than_s: float = DAY_S) -> list[str]:
        """Delete what nothing names any more and is older than `older_than_s`; returns the deleted keys, sorted.

        These are files of crashed or outrun writers and files that a compaction replaced that long ago. A writer
        must not take longer than `older_than_s` between its two writes, or its rows are taken for an orphan's.
        """
        return sweep(self.objects, self._log, older_than_s, self._now())

    def check(self) -> None:
        """Raise a clear StoreError unless the store can be written and read; takes seconds at most."""
        self.objects.check()

    def _written(self, table: str, key: str, run_id: str, frame: pl.DataFrame) -> Commit:
        """The commit of these rows, whose file exists; not visible yet."""
        part, at = part_of(key), self._now()
        file = write_file(self.objects, table, part, frame, at) if len(frame) else None
        return Commit(
            table=table,
            part=part,
            key=key,
            run_id=run_id,
            at=at.isoformat(timespec="microseconds"),
            writer=f"{socket.gethostname()}:{os.getpid()}",
            num_rows=len(frame),
            digest=file.digest if file else "",
            file=file,
        )

    def _ref(self, commit: Commit) -> DatasetRef:
        key = commit.file.key if commit.file else commit_key(commit.table, commit.part)
        return commit.ref(self.objects.uri(key))

    def _live_frames(self, table: str) -> list[pl.DataFrame]:
        files = [live.file for live in self._log.live(table)]
        return each(lambda file: from_parquet(table, read_bytes(self.objects, file)), files)

    def _read_merged(self, commit: Commit) -> pl.DataFrame:
        """A commit's rows from the merged file that replaced its own; MissingKey when there is none."""
        latest = self._log.latest(commit.table)
        for merged in latest.files if latest else ():
            if any(commit.part == covered.part for covered in merged.commits):
                return part_rows(commit.table, read_bytes(self.objects, merged.file), commit.part)
        raise MissingKey(f"The rows of commit {commit.part!r} of table {commit.table} are gone from {self.uri}.")
