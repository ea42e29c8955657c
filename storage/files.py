"""Parquet objects: written under a name of their own, checked against their digest when read."""

import hashlib
import uuid
from datetime import datetime

import polars as pl

from assay.errors import StoreError
from storage.backends.base import ObjectStore
from storage.commits import DataFile
from storage.names import DATA, stamped
from storage.typed import to_parquet


def write_file(objects: ObjectStore, table: str, name: str, frame: pl.DataFrame, now: datetime) -> DataFile:
    """Write rows to a new object that nothing names yet."""
    data = to_parquet(frame)
    key = f"{DATA}{table}/{stamped(name, uuid.uuid4().hex[:8], now)}.parquet"
    objects.put(key, data)
    return DataFile(key, len(frame), len(data), _digest(data), tuple(frame.columns))


def read_bytes(objects: ObjectStore, file: DataFile) -> bytes:
    """The object's bytes; StoreError when they are not those that were written."""
    data = objects.get(file.key)
    if _digest(data) != file.digest:
        raise StoreError(
            f"{objects.uri(file.key)} is damaged: {len(data)} bytes with digest {_digest(data)}, its commit says "
            f"{file.num_bytes} bytes with digest {file.digest}. Restore the object from a copy."
        )
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
