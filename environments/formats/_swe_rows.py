"""Rows of the SWE-bench family, checked: SWE-bench (Verified, Gym) and SWE-smith, whose `patch` is the bug.

SWE-bench   patch repairs, test_patch brings the hidden tests
SWE-smith   patch breaks what was right, there is no test_patch: the repair is its reverse
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assay.errors import ConfigurationError
from environments.formats._faults import Unusable

MAX_SET = 512 << 20
_LEVELS = {"<15 min fix": 1, "15 min - 1 hour": 2, "1-4 hours": 3, ">4 hours": 4}


def _ids(value: Any) -> Any:
    """A list, or the same as JSON text."""
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError("must be a list of test ids, or JSON of one") from error


Ids = Annotated[tuple[str, ...], BeforeValidator(_ids)]


class Row(BaseModel):
    """One instance. `kind` says what `patch` does."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    instance_id: str = Field(pattern=r"^[\w.+-]{1,200}$")
    repo: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")
    base_commit: str = Field(pattern=r"^[0-9a-f]{7,64}$")
    patch: str = Field(min_length=1)
    test_patch: str = ""
    problem_statement: str = Field(min_length=1)
    fail_to_pass: Ids = Field(alias="FAIL_TO_PASS", min_length=1)
    pass_to_pass: Ids = Field((), alias="PASS_TO_PASS")
    difficulty: str | None = None
    kind: Literal["repair", "bug"] = "repair"

    @model_validator(mode="before")
    @classmethod
    def _told_apart(cls, values: Any) -> Any:
        """SWE-smith's rows have no `test_patch`; `kind` is never read from a file."""
        if not isinstance(values, dict):
            return values
        smith = values.get("test_patch") is None
        kept = {name: value for name, value in values.items() if value is not None and name != "kind"}
        return {**kept, "kind": "bug" if smith else "repair"}

    @model_validator(mode="after")
    def _sensible(self) -> "Row":
        if both := set(self.fail_to_pass) & set(self.pass_to_pass):
            raise ValueError(f"{sorted(both)[0]!r} is in FAIL_TO_PASS and in PASS_TO_PASS")
        if not self.problem_statement.strip():
            raise ValueError("problem_statement is blank")
        return self

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.fail_to_pass, *self.pass_to_pass)

    @property
    def test_files(self) -> list[str]:
        return sorted({each.split("::")[0] for each in self.ids})

    @property
    def level(self) -> int:
        return _LEVELS.get(self.difficulty or "", 1)


def read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """(where, row or what is wrong with it) of a JSONL or Parquet file. Raises ConfigurationError."""
    try:
        size = os.stat(path).st_size
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The set {str(path)!r} cannot be read: {error}; give a JSONL or Parquet file."
        ) from error
    if size > MAX_SET or not path.is_file():
        raise ConfigurationError(
            f"The set {str(path)!r} has {size:,} bytes; give a file of at most {MAX_SET:,} bytes, or split it."
        )
    return _parquet(path) if path.suffix == ".parquet" else _lines(path)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path.name} line {number}", _parsed(line)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return Unusable("must be UTF-8", key="line", value=repr(line[:40]))
    except (ValueError, RecursionError) as error:
        return Unusable(f"is not JSON: {error}", key="line", value=repr(line[:40]))


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigurationError(f"The set {str(path)!r} is not a Parquet file: {error}") from error
    for number, row in enumerate(rows, 1):
        yield f"{path.name} row {number}", row
