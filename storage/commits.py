"""What makes rows visible: commits, and the compactions that stand for many of them.

Commit       one small JSON object, written once, naming the file its rows are in
Compaction   a numbered list of merged files, each with the commits it replaces; the highest number counts
Snapshot     the files that are live now: merged files, and those of commits no compaction covers
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import StoreError
from assay.records import DatasetRef

FORMAT = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet object; `digest` is of its bytes, `columns` are those it has."""

    key: str
    num_rows: int
    num_bytes: int
    digest: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows that belong together. `file` is None when there are none."""

    table: str
    part: str
    key: str
    run_id: str
    at: str
    writer: str
    num_rows: int
    digest: str
    file: DataFile | None

    @property
    def order(self) -> tuple[str, str]:
        """Commits sort by time, then by name where two clocks agree."""
        return (self.at, self.part)

    def ref(self, uri: str) -> DatasetRef:
        return DatasetRef(table=self.table, part=self.part, uri=uri, num_rows=self.num_rows, digest=self.digest)


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A file that holds the rows of several commits, in their order, with a `_part` column that tells them apart."""

    file: DataFile
    at: str
    commits: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """The merged files of a table. Each new number is made from the one before and replaces it entirely."""

    table: str
    number: int
    at: str
    files: tuple[MergedFile, ...]

    @property
    def commits(self) -> dict[str, Commit]:
        """The commits it stands for, by part."""
        return {commit.part: commit for merged in self.files for commit in merged.commits}


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file to read, and its place in the order of commits."""

    file: DataFile
    order: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The live files by table, each list in commit order. `id` counts the commits: c_000041."""

    id: str
    files: dict[str, tuple[LiveFile, ...]]


def live_files(commits: Iterable[Commit], compaction: Compaction | None) -> tuple[LiveFile, ...]:
    """Merged files and the files of commits that the compaction does not cover, in order."""
    covered = compaction.commits if compaction else {}
    merged = [LiveFile(m.file, m.commits[0].order) for m in compaction.files] if compaction else []
    single = [LiveFile(c.file, c.order) for c in commits if c.part not in covered and c.file is not None]
    return tuple(sorted([*merged, *single], key=lambda live: live.order))


def encode(item: Commit | Compaction) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(item)}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_commit(key: str, data: bytes) -> Commit:
    return _commit(_document(key, data))


def decode_compaction(key: str, data: bytes) -> Compaction:
    raw = _document(key, data)
    files = tuple(
        MergedFile(_file(m["file"]), m["at"], tuple(_commit(c) for c in m["commits"])) for m in raw.pop("files")
    )
    return Compaction(**raw, files=files)


def _document(key: str, data: bytes) -> dict[str, Any]:
    try:
        raw: dict[str, Any] = json.loads(data)
        version = raw.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise StoreError(
            f"{key} is damaged: it is not the JSON Assay writes ({error}). Restore it from a copy."
        ) from error
    if version != FORMAT:
        raise StoreError(f"{key} has format {version!r}; this Assay reads {FORMAT}. Use the version that wrote it.")
    return raw


def _commit(raw: dict[str, Any]) -> Commit:
    file = raw["file"]
    return Commit(**(raw | {"file": _file(file) if file else None}))


def _file(raw: dict[str, Any]) -> DataFile:
    return DataFile(**(raw | {"columns": tuple(raw["columns"])}))
