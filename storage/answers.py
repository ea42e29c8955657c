"""Answers of the catalogue: Arrow inside, polars, pandas or plain Python values outside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, all of it in memory: `seconds` it took, `snapshot` of the store it is about (c_000041)."""

    table: "pa.Table"
    seconds: float
    snapshot: str

    @property
    def columns(self) -> list[str]:
        return _distinct(self.table.column_names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Python values, row by row."""
        return self.pl().rows()

    def __len__(self) -> int:
        return self.table.num_rows

    def pl(self) -> pl.DataFrame:
        """As polars. Sums of whole numbers are whole numbers; a column name that comes twice gets a number."""
        return pl.DataFrame([_plain(name, self.table.column(i)) for i, name in enumerate(self.columns)])

    def df(self) -> "pd.DataFrame":
        """As pandas."""
        return self.pl().to_pandas()


def _plain(name: str, values: "pa.ChunkedArray") -> pl.Series:
    """A column as polars has it; DuckDB's 128-bit sums become 64-bit where they fit, unknown types text."""
    try:
        series = pl.Series(name, pl.from_arrow(values))
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        return pl.Series(name, [None if v is None else str(v) for v in values.to_pylist()], pl.String())
    if series.dtype == pl.Decimal(38, 0):
        narrow = series.cast(pl.Int64(), strict=False)
        return narrow if narrow.null_count() == series.null_count() else series
    return series


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before: a, a_1, a_2."""
    seen: list[str] = []
    for name in names:
        number, candidate = 0, name
        while candidate in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.append(candidate)
    return seen
