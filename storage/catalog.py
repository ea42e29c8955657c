"""SQL over the committed tables: an in-memory DuckDB with a view per table, read-only and closed to other files.

    Catalog(Store.open()).sql("FROM trajectories SELECT domain, avg(reward) FILTER (valid) GROUP BY 1").pl()

A catalogue shows the store as it was when it was opened or refreshed. Views are filled when a query first names
them: the files of a table are then checked once for rows with equal keys, and only if there are any does reading
pay for leaving them out.
"""

import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import duckdb

from assay.errors import ConfigurationError, StoreError, StoreUnreachable
from storage.answers import Result
from storage.commits import LiveFile, Snapshot
from storage.names import DATA
from storage.store import Store
from storage.tables import TABLES
from storage.typed import PART
from storage.views import (
    JOINED,
    escaped_glob,
    has_repeats_sql,
    literal,
    quoted,
    repeats_sql,
    rows_sql,
    table_sql,
    tables_behind,
    view_of,
)

__all__ = ["Catalog", "Result"]

Params = Sequence[Any] | Mapping[str, Any] | None
_READING = {"SELECT", "FROM", "WITH", "VALUES", "PIVOT", "UNPIVOT", "DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "TABLE"}
_EXPLAIN = re.compile(r"EXPLAIN\s+(?:ANALYZE\s+)?(?:\([^)]*\)\s*)?", re.IGNORECASE)
_SPACE_OR_COMMENT = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
# Functions that take the name of a view as a value, where it would not be seen.
_INDIRECT = {"query", "query_table"}
_READING_TYPES = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}
_CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": f"{tempfile.gettempdir()}/assay-duckdb-{os.getuid()}",
}
_UNREADABLE = (duckdb.IOException, duckdb.HTTPException)


class Catalog:
    """One DuckDB session on a store. Threads may share it.

    Raises ConfigurationError for SQL that is wrong or would write, StoreError for files that cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._behind = tables_behind()
        self.refresh()

    def refresh(self) -> str:
        """Show the store as it is now; returns the snapshot's name.

        A fresh session: questions under way in other threads keep the one they began with.
        """
        with self._lock:
            self._snapshot: Snapshot = self._store.snapshot()
            self._connection = _connect(self._store)
            self._filled: set[str] = set()
            for name in TABLES:
                self._define(name, ())
            for name, joined in JOINED.items():
                self._view(name, joined.sql)
            return self._snapshot.id

    @property
    def snapshot(self) -> str:
        """Name of the snapshot shown."""
        return self._snapshot.id

    def sql(self, query: str, params: Params = None) -> Result:
        """The answer to one reading statement; `params` fill `?` or `$1` (a list), or `$name` (a mapping)."""
        self._refuse_writes(query)
        try:
            return self._answer(query, params)
        except StoreUnreachable:
            raise
        except StoreError:
            # Files this snapshot names may have been merged and swept since it was taken.
            self.refresh()
            return self._answer(query, params)

    def close(self) -> None:
        """Idempotent."""
        self._connection.close()

    def _answer(self, query: str, params: Params) -> Result:
        begin = time.perf_counter()
        with self._lock:
            self._fill(query)
            cursor, snapshot = self._connection.cursor(), self._snapshot.id
        try:
            relation = cursor.sql(query, params=params)
            table = relation.to_arrow_table()
        except duckdb.Error as error:
            raise self._explained(error, query) from error
        return Result(table, time.perf_counter() - begin, snapshot)

    def _fill(self, query: str) -> None:
        """Give the views that a query names their files."""
        words = set(re.findall(r"\w+", query.lower()))
        views = self._behind if words & _INDIRECT else words & self._behind.keys()
        for table in sorted({table for view in views for table in self._behind[view]} - self._filled):
            try:
                self._define(table, self._snapshot.files[table])
            except duckdb.Error as error:
                raise self._explained(error, query) from error
            self._filled.add(table)

    def _define(self, name: str, files: Sequence[LiveFile]) -> None:
        table = TABLES[name]
        rows = rows_sql(table, files, self._store.objects.uri)
        # A commit holds no key twice, so one file of one commit needs no look.
        single = len(files) == 1 and PART not in files[0].file.columns
        dropped = None if single else self._drop(name, rows, table.key, files, keep="first")
        self._view(view_of(name), table_sql(table, rows, dropped))
        if name == "rewards":
            rows = f"SELECT * FROM ({rows}) {f'ANTI JOIN {dropped} USING (_file, _row)' if dropped else ''}"
            older = self._drop("verdicts", rows, ("trajectory_id",), files, keep="last")
            self._view("verdicts", table_sql(table, rows, older))

    def _drop(
        self, label: str, rows: str, key: Sequence[str], files: Sequence[LiveFile], *, keep: Literal["first", "last"]
    ) -> str | None:
        """A table of the places to leave out so that each key is there once; None when each is."""
        if not files or not self._value(has_repeats_sql(rows, key)):
            return None
        addresses = [self._store.objects.uri(live.file.key) for live in files]
        order = "SELECT unnest($1::VARCHAR[]) AS _file, generate_subscripts($1::VARCHAR[], 1) AS number"
        name = f"hidden.{quoted(label)}"
        self._connection.execute(f"CREATE OR REPLACE TABLE hidden.file_order AS {order}", [addresses])
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS {repeats_sql(rows, key, 'hidden.file_order', keep=keep)}"
        )
        return name

    def _value(self, query: str) -> Any:
        row = self._connection.execute(query).fetchone()
        return row[0] if row else None

    def _view(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {query}")

    def _refuse_writes(self, query: str) -> None:
        """Let one statement that reads pass. Files outside the store are closed to it anyway."""
        try:
            with self._lock:
                statements = self._connection.extract_statements(query)
        except duckdb.Error as error:
            raise self._explained(error, query) from error
        if len(statements) != 1:
            raise ConfigurationError(f"Give one SQL statement; there are {len(statements)} in {_short(query)!r}.")
        start = _SPACE_OR_COMMENT.sub("", query, count=1)
        start = _SPACE_OR_COMMENT.sub("", _EXPLAIN.sub("", start, count=1), count=1)
        word = (re.match(r"\w+", start) or [""])[0].upper()
        if word not in _READING or statements[0].type not in _READING_TYPES:
            raise ConfigurationError(
                f"The catalogue only reads, and {_short(query)!r} starts with {word or 'no word'}. Start with one of "
                f"{', '.join(sorted(_READING))} or EXPLAIN; to keep an answer use `assay sql --parquet FILE`."
            )

    def _explained(self, error: duckdb.Error, query: str) -> Exception:
        """Whose fault it is: the store's when its files cannot be read, else the query's."""
        files: Any = self._store.objects.filesystem()
        failure, text = getattr(files, "failure", None), str(error)
        if failure is not None:
            files.failure = None
            return failure if isinstance(failure, StoreError) else StoreError(f"Reading {self._store.uri}: {failure}")
        if isinstance(error, _UNREADABLE):
            return StoreError(f"Files of {self._store.uri} cannot be read: {text}")
        return ConfigurationError(f"The query {_short(query)!r} failed. {text}")


def _connect(store: Store) -> duckdb.DuckDBPyConnection:
    """A session that reads the store's data and nothing else, and whose settings a query cannot change."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("CREATE SCHEMA hidden")
    if store.objects.secret() is not None and not _native_reader(connection, store):
        connection.register_filesystem(store.objects.filesystem())
    data = store.objects.uri(DATA.rstrip("/")) + "/"
    allowed = ", ".join(literal(path) for path in {data, escaped_glob(data)})
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _native_reader(connection: duckdb.DuckDBPyConnection, store: Store) -> bool:
    """Use DuckDB's own S3 reader; False where the extension is not installed. Nothing is downloaded."""
    try:
        connection.execute("LOAD httpfs")
    except (duckdb.IOException, duckdb.HTTPException, duckdb.InvalidInputException):
        return False
    fields = ", ".join(f"{name} {literal(value)}" for name, value in (store.objects.secret() or {}).items())
    connection.execute(f"CREATE SECRET store (TYPE s3, {fields})")
    return True


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 120 else f"{text[:120]}..."
