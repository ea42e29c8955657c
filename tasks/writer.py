"""Commits trajectories and verdicts in chunks as they arrive, so that an interruption loses only what is in flight."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from assay.ids import combined_digest

Row = TypeVar("Row")
Commit = Callable[[Sequence[Any], str], None]


class ChunkWriter(Generic[Row]):
    """`add` never waits; full chunks are committed on worker threads; `finish` waits for the rest.

    The commit key of a chunk follows from the ids in it, so a repeated chunk is the same commit.
    """

    def __init__(self, commit: Commit, id_of: Callable[[Row], str], chunk_size: int) -> None:
        self._commit = commit
        self._id_of = id_of
        self._size = chunk_size
        self._rows: list[Row] = []
        self._running: list[asyncio.Task[None]] = []

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._size:
            self._flush()

    async def finish(self) -> None:
        """Commit what is left and raise the first error of any commit."""
        self._flush()
        await asyncio.gather(*self._running)

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            digest = combined_digest(self._id_of(row) for row in rows)
            self._running.append(asyncio.create_task(asyncio.to_thread(self._commit, rows, digest)))
