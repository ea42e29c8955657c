"""Rows to typed frames and Parquet bytes, and back. A row that does not fit its table is refused here, by name."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from assay.errors import StoreError, unknown_choice
from storage.tables import TABLES, Table

ROW_GROUP = 50_000
PART = "_part"
"""The column of merged files that tells which commit a row came with."""
Rows = pl.DataFrame | Sequence[Mapping[str, Any]]


def table_named(name: str) -> Table:
    """The table, or a ConfigurationError that lists the known ones."""
    if name not in TABLES:
        raise unknown_choice("table", name, TABLES)
    return TABLES[name]


def typed_frame(name: str, rows: Rows, *, run_id: str | None = None) -> pl.DataFrame:
    """The rows with exactly the table's columns, types and order; of equal keys the first row stays.

    A missing `run_id` column is filled in. Raises StoreError naming table, column, expected type, row and value.
    Whole numbers are accepted for real ones; nothing else is converted.
    """
    table = table_named(name)
    columns, num_rows = _columns(table, rows, run_id)
    typed = pl.DataFrame([_typed(table, column, values) for column, values in columns.items()])
    _check_key(table, typed)
    return typed.unique(table.key, keep="first", maintain_order=True) if num_rows > 1 else typed


def empty_frame(name: str) -> pl.DataFrame:
    """No rows, the table's columns."""
    return pl.DataFrame(schema=table_named(name).schema)


def to_parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=3, row_group_size=ROW_GROUP)
    return buffer.getvalue()


def from_parquet(name: str, data: bytes) -> pl.DataFrame:
    """The rows of a file in today's columns: a column that is newer than the file is null."""
    return _conform(name, pl.read_parquet(io.BytesIO(data)))


def with_parts(name: str, data: bytes, part: str) -> pl.DataFrame:
    """The rows of a file with the `_part` each belongs to: as the file says, else `part`."""
    raw = pl.read_parquet(io.BytesIO(data))
    parts = raw[PART] if PART in raw.columns else pl.Series(PART, [part] * len(raw), pl.String())
    return _conform(name, raw).with_columns(parts)


def part_rows(name: str, data: bytes, part: str) -> pl.DataFrame:
    """The rows of one commit from a merged file."""
    return with_parts(name, data, part).filter(pl.col(PART) == part).drop(PART)


def _conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    schema = table_named(name).schema
    known = set(frame.columns)
    return frame.select(
        pl.col(column).cast(type_) if column in known else pl.lit(None, type_).alias(column)
        for column, type_ in schema.items()
    )


def _columns(table: Table, rows: Rows, run_id: str | None) -> tuple[dict[str, Any], int]:
    """Values by column, in the table's order, after checking that none is missing and none unknown."""
    fill = {"run_id"} if run_id is not None else set()
    if isinstance(rows, pl.DataFrame):
        _check_names(table, set(rows.columns), fill, "the frame")
        given: dict[str, Any] = dict(zip(rows.columns, rows.get_columns(), strict=True))
        return {c: given.get(c, pl.Series(c, [run_id] * len(rows), pl.String())) for c in table.columns}, len(rows)
    for index, row in enumerate(rows):
        _check_names(table, row.keys(), fill, f"row {index}")
    return {c: [row.get(c, run_id) if c in fill else row[c] for row in rows] for c in table.columns}, len(rows)


def _check_names(table: Table, names: Any, fill: set[str], where: str) -> None:
    missing = [c for c in table.columns if c not in names and c not in fill]
    extra = [c for c in names if c not in table.columns]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(map(str, extra))}"] * bool(
            extra
        )
        raise StoreError(f"Table {table.name}: {where} {' and '.join(parts)}. Columns: {', '.join(table.columns)}.")


def _typed(table: Table, column: str, values: Any) -> pl.Series:
    type_ = table.columns[column].type
    series = values.rename(column) if isinstance(values, pl.Series) else _series(table, column, type_, values)
    if series.dtype != type_:
        series = _widened(table, column, type_, series)
    _check_finite(table, column, series)
    return series


def _series(table: Table, column: str, type_: pl.DataType, values: list[Any]) -> pl.Series:
    for row, value in enumerate(values):
        if _misread(type_, value):
            raise _mismatch(table, column, row, value)
    try:
        return pl.Series(column, values, dtype=type_, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        for row, value in enumerate(values):
            if not _fits(type_, value):
                raise _mismatch(table, column, row, value) from error
        raise StoreError(f"Table {table.name}, column {column}: cannot be made {type_}: {error}.") from error


def _misread(type_: pl.DataType, value: Any) -> bool:
    """Values that polars takes but means otherwise: True as 1, text as a list of letters, structs that lack parts."""
    if isinstance(type_, pl.List):
        if isinstance(type_.inner, pl.Struct) and value is not None:
            names = {part.name for part in type_.inner.fields}
            return isinstance(value, str) or any(set(each) != names for each in value)
        return isinstance(value, (str, bytes))
    return isinstance(value, bool) and type_.is_numeric()


def _fits(type_: pl.DataType, value: Any) -> bool:
    try:
        pl.Series([value], dtype=type_, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return False
    return True


def _widened(table: Table, column: str, type_: pl.DataType, series: pl.Series) -> pl.Series:
    """The same values in the table's type; refuses what could change a value (text to number, 2.5 to 2)."""
    if _loses_nothing(series.dtype, type_):
        try:
            return series.cast(type_, strict=True)
        except pl.exceptions.PolarsError as error:
            raise StoreError(f"Table {table.name}, column {column}: a value does not fit {type_}: {error}.") from error
    row = next((i for i, value in enumerate(series) if value is not None), 0)
    raise _mismatch(table, column, row, series[row] if len(series) else None, series.dtype)


def _loses_nothing(given: pl.DataType, wanted: pl.DataType) -> bool:
    if given == pl.Null():
        return True
    if isinstance(given, (pl.List, pl.Array)) and isinstance(wanted, pl.List):
        return _loses_nothing(_inner(given), _inner(wanted))
    if isinstance(given, (pl.Categorical, pl.Enum)):
        return wanted == pl.String()
    # Real numbers may be narrowed: log-probabilities are kept as 32-bit floats.
    return (given.is_integer() and wanted.is_numeric()) or (given.is_float() and wanted.is_float())


def _inner(type_: Any) -> pl.DataType:
    return type_.inner


def _check_finite(table: Table, column: str, series: pl.Series) -> None:
    """NaN is refused: it would silently poison every average over the column."""
    if _has_nan(series):
        rows = [i for i in range(len(series)) if _has_nan(series[i : i + 1])]
        raise StoreError(
            f"Table {table.name}, column {column}: row {rows[0]} holds NaN ({len(rows)} rows do). "
            "Write null, or mend it."
        )


def _has_nan(series: pl.Series) -> bool:
    flat = series.explode(empty_as_null=True) if isinstance(series.dtype, pl.List) else series
    if isinstance(flat.dtype, pl.Struct):
        return any(_has_nan(field) for field in flat.struct.unnest().get_columns())
    return flat.dtype.is_float() and bool(flat.is_nan().any())


def _check_key(table: Table, typed: pl.DataFrame) -> None:
    for column in table.key:
        nulls = typed[column].is_null()
        if nulls.any():
            raise StoreError(
                f"Table {table.name}, column {column}: row {nulls.arg_max()} is null, but the column is part of "
                f"the key ({', '.join(table.key)})."
            )


def _mismatch(table: Table, column: str, row: int, value: Any, given: object = None) -> StoreError:
    shown = repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    return StoreError(
        f"Table {table.name}, column {column}: row {row} is {shown} ({given or type(value).__name__}), "
        f"expected {table.columns[column].type} ({table.columns[column].meaning})."
    )
