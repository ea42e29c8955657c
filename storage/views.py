"""The SQL behind the catalogue's views: one per table over its live files, and those that join them.

trajectories   raw_trajectories with their verdict        verdicts   the newest reward row of each trajectory
lineage        policy version -> batch -> trajectory
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from storage.commits import LiveFile
from storage.tables import TABLES, Table

_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Int32(): "INTEGER",
    pl.Float64(): "DOUBLE",
    pl.Float32(): "FLOAT",
    pl.Boolean(): "BOOLEAN",
    pl.Binary(): "BLOB",
}


@dataclass(frozen=True, slots=True)
class Joined:
    """A view over other views; `tables` are those whose files it reads."""

    meaning: str
    sql: str
    tables: tuple[str, ...]


JOINED: dict[str, Joined] = {
    "trajectories": Joined(
        "One row per rollout with its verdict; `valid` is null until it is verified",
        """
        SELECT t.*,
            coalesce(r.valid, CASE WHEN t.failure_cause IS NOT NULL THEN false END) AS valid,
            r.reward, r.passed, coalesce(r.cause, t.failure_cause) AS cause,
            coalesce(r.detail, t.failure_detail) AS detail, r.terms, r.judged, r.verifier_version, r.verify_s
        FROM raw_trajectories t LEFT JOIN verdicts r USING (trajectory_id)
        """,
        ("trajectories", "rewards"),
    ),
    "lineage": Joined(
        "What made each policy version: one row per version, batch and trajectory",
        """
        SELECT p.policy_id, p.name AS policy_name, p.kind, p.parent, p.run_id, b.batch_id, b.iteration,
            b.trajectory_id, b.group_id, b.domain, b.in_baseline, b.used, b.drop_reason, b.advantage
        FROM (SELECT *, unnest(CASE WHEN len(batch_ids) > 0 THEN batch_ids ELSE [NULL] END) AS made_by FROM policies) p
        LEFT JOIN batches b ON b.batch_id = p.made_by
        """,
        ("policies", "batches"),
    ),
}
RENAMED = {"trajectories": "raw_trajectories"}


def view_of(table: str) -> str:
    """The view that shows a table's rows as they are."""
    return RENAMED.get(table, table)


def tables_behind() -> dict[str, tuple[str, ...]]:
    """For each view the tables whose files it reads."""
    plain = {view_of(name): (name,) for name in TABLES}
    return plain | {"verdicts": ("rewards",)} | {name: joined.tables for name, joined in JOINED.items()}


def rows_sql(table: Table, files: Sequence[LiveFile], uri: Callable[[str], str]) -> str:
    """All rows of the files in today's columns, with their place: `_file` (its address) and `_row` in it."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for live in files:
        groups.setdefault(live.file.columns, []).append(uri(live.file.key))
    parts = [_group_sql(table, columns, addresses) for columns, addresses in groups.items()]
    return "\nUNION ALL\n".join(parts) if parts else _no_rows_sql(table)


def table_sql(table: Table, rows: str, dropped: str | None) -> str:
    """The table's columns of `rows`, without the places listed in the table `dropped`."""
    columns = ", ".join(f"r.{quoted(name)}" for name in table.columns)
    kept = f"ANTI JOIN {dropped} d ON r._file = d._file AND r._row = d._row" if dropped else ""
    return f"SELECT {columns} FROM ({rows}) r {kept}"


def has_repeats_sql(rows: str, key: Sequence[str]) -> str:
    """True when two rows share a key. Reads the key's columns only."""
    return f"SELECT count(*) > count(DISTINCT row({', '.join(map(quoted, key))})) FROM ({rows})"


def repeats_sql(rows: str, key: Sequence[str], order: str, *, keep: Literal["first", "last"]) -> str:
    """Places of the rows to drop so that one of each key stays; the table `order` numbers the files by commit."""
    direction = "ASC" if keep == "first" else "DESC"
    columns = ", ".join(map(quoted, key))
    return f"""
        SELECT _file, _row FROM (
            SELECT r._file, r._row, row_number() OVER (
                PARTITION BY {columns} ORDER BY o.number {direction}, r._row {direction}) AS place
            FROM ({rows}) r JOIN {order} o ON r._file = o._file)
        WHERE place > 1
    """


def sql_type(type_: Any) -> str:
    """A polars type in DuckDB's words."""
    if isinstance(type_, pl.List):
        return f"{sql_type(type_.inner)}[]"
    if isinstance(type_, pl.Struct):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {sql_type(field.dtype)}' for field in type_.fields)})"
    return _TYPES[type_]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped_glob(path: str) -> str:
    """A path in which `*`, `?` and `[` mean themselves."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _group_sql(table: Table, columns: tuple[str, ...], addresses: list[str]) -> str:
    """Files that have the same columns; those the table has gained since are null."""
    selected = ", ".join(
        quoted(name) if name in columns else f"NULL::{sql_type(column.type)} AS {quoted(name)}"
        for name, column in table.columns.items()
    )
    paths = ", ".join(literal(escaped_glob(address)) for address in addresses)
    return (
        f"SELECT {selected}, filename AS _file, file_row_number AS _row "
        f"FROM read_parquet([{paths}], filename=true, file_row_number=true, hive_partitioning=false)"
    )


def _no_rows_sql(table: Table) -> str:
    columns = ", ".join(f"NULL::{sql_type(column.type)} AS {quoted(name)}" for name, column in table.columns.items())
    return f"SELECT {columns}, NULL::VARCHAR AS _file, NULL::BIGINT AS _row WHERE false"
