"""`assay sql`: one question, its answer as a table, CSV, JSON or Parquet on stdout, and how it came on stderr."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import ConfigurationError
from console.output import cell_text, clean, put, put_json, say, table
from storage import named
from storage.catalog import Catalog, Result
from storage.store import Store

if TYPE_CHECKING:
    from polars import DataFrame

CELL_WIDTH = 60
MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """How to print an answer. At most one is set; a table otherwise."""

    csv: bool = False
    json: bool = False
    parquet: Path | None = None

    def __post_init__(self) -> None:
        if self.csv + self.json + (self.parquet is not None) > 1:
            raise ConfigurationError("Choose one of --csv, --json and --parquet.")


def open_catalog() -> Catalog:
    """The catalogue of the store in the settings, as it is now."""
    return Catalog(Store.open())


def question(query: str | None, name: str | None, file: Path | None) -> str | None:
    """The SQL asked for in one of three ways; None when in none."""
    given = [value for value in (query, name, file) if value is not None]
    if len(given) > 1:
        raise ConfigurationError("Give one query: as an argument, by --query NAME, or in a file by -f.")
    if name is not None:
        return named.load(name).sql
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"Cannot read the query file {file}: {error.strerror}.") from error
    return query


def ask(catalog: Catalog, sql: str, answer: Answer) -> None:
    """Ask and print."""
    result = catalog.sql(sql)
    num_rows = print_answer(result, answer)
    say(footer(result, num_rows))


def print_answer(result: Result, answer: Answer) -> int:
    """Print an answer and return how many rows it has."""
    frame = result.pl()
    if answer.parquet is not None:
        _write_parquet(frame, answer.parquet)
    elif answer.json:
        put_json(frame.to_dicts())
    elif answer.csv:
        put(_csv(frame))
    else:
        put(table(frame.columns, frame.head(MAX_ROWS).rows(), cell_width=CELL_WIDTH))
        if len(frame) > MAX_ROWS:
            say(f"the first {MAX_ROWS} rows; --csv, --json and --parquet give all")
    return len(frame)


def footer(result: Result, num_rows: int) -> str:
    """`3 rows, 0.04 s, snapshot c_000041`."""
    return f"{num_rows} row{'s' * (num_rows != 1)}, {result.seconds:.2f} s, snapshot {result.snapshot}"


def expanded(result: Result) -> str:
    """One row below the other, a line per column, values in full."""
    frame = result.pl()
    blocks = [
        "\n".join([f"-- row {i}", table(["column", "value"], list(row.items()))])
        for i, row in enumerate(frame.head(MAX_ROWS).to_dicts(), start=1)
    ]
    return "\n".join(blocks) or "(no rows)"


def _write_parquet(frame: "DataFrame", path: Path) -> None:
    try:
        frame.write_parquet(path)
    except OSError as error:
        raise ConfigurationError(f"Cannot write {path}: {error}. Choose a place you may write to.") from error
    say(f"written to {path}")


def _csv(frame: "DataFrame") -> str:
    """CSV with nested values as JSON; on a terminal, harmless to it."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    as_json = [pl.Series(name, map(cell_text, frame[name].to_list()), pl.String()) for name in nested]
    text = frame.with_columns(as_json).write_csv()
    return clean(text) if sys.stdout.isatty() else text
