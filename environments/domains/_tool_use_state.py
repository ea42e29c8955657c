"""The state of a service as plain data: dumps of a SQLite database, what changed between two, when two rows agree.

    dump   {"orders": {"O-10234": {"id": "O-10234", "status": "placed", ...}}}
    diff   {"orders": {"O-10234": {"before": {...}, "after": {...}}}}      before or after is None for a row that is new
                                                                          or gone; a table without changes is left out

`apply(before, diff(before, after)) == after`.
"""

import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

Row = dict[str, Any]
Dump = dict[str, dict[str, Row]]
Diff = dict[str, dict[str, dict[str, Row | None]]]

_UNCOMPARED = ("version",)


def dump(database: sqlite3.Connection, *, private: bool = False) -> Dump:
    """Every table by name and id; those whose name begins with `_` only where `private` is asked for."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    names = [name for (name,) in database.execute(query) if private or not name.startswith("_")]
    return {name: _rows(database, name) for name in names}


def load(database: sqlite3.Connection, world: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Insert the rows of a dump. Raises sqlite3.Error for rows that do not fit the tables."""
    for table, rows in world.items():
        for row in rows.values():
            columns = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            database.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({marks})', tuple(row.values()))


def diff(before: Mapping[str, Mapping[str, Row]], after: Mapping[str, Mapping[str, Row]]) -> Diff:
    """What changed, row by row; empty for equal dumps."""
    found: Diff = {}
    for table in sorted({*before, *after}):
        old, new = before.get(table, {}), after.get(table, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                found.setdefault(table, {})[key] = {"before": old.get(key), "after": new.get(key)}
    return found


def apply(before: Mapping[str, Mapping[str, Row]], changes: Diff) -> Dump:
    """The dump after the changes."""
    after = {table: dict(rows) for table, rows in before.items()}
    for table, rows in changes.items():
        for key, change in rows.items():
            row = change["after"]
            if row is None:
                after[table].pop(key, None)
            else:
                after.setdefault(table, {})[key] = row
    return after


def changed_rows(changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """(table, id, change) of every change."""
    for table, rows in changes.items():
        for key, change in rows.items():
            yield table, key, change


def same_row(found: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> bool:
    """Equality of two rows; of texts after normalisation, and whatever version number they have reached."""
    if found is None or wanted is None:
        return found is wanted
    return _compared(found) == _compared(wanted)


def plain(text: str) -> str:
    """Compatibility forms, case and spacing evened out, and no full stop at the end. Lines stay lines.

    >>> plain("  Team  LUNCH. ")
    'team lunch'
    """
    lines = unicodedata.normalize("NFKC", text).casefold().strip().splitlines()
    return "\n".join(" ".join(line.split()) for line in lines).rstrip(".")


def _compared(row: Mapping[str, Any]) -> Row:
    kept = {name: value for name, value in row.items() if name not in _UNCOMPARED}
    return {name: plain(value) if isinstance(value, str) else value for name, value in kept.items()}


def _rows(database: sqlite3.Connection, table: str) -> dict[str, Row]:
    cursor = database.execute(f'SELECT * FROM "{table}" ORDER BY id')
    names = [column[0] for column in cursor.description]
    return {values[names.index("id")]: dict(zip(names, values, strict=True)) for values in cursor}
