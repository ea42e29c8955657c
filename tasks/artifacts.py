"""What people see in the Prefect UI: tables, markdown, progress."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)


async def table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """A table artifact; `key` is stable over runs, so the UI shows its history."""
    await acreate_table_artifact(key=slug(key), table=[dict(row) for row in rows], description=description)


async def markdown(key: str, text: str, description: str) -> None:
    await acreate_markdown_artifact(key=slug(key), markdown=text, description=description)


def slug(text: str) -> str:
    """Lowercase letters, digits and dashes, as artifact keys must be."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")


class Progress:
    """A progress artifact that is updated at most every two seconds, so that it costs the work nothing."""

    def __init__(self, artifact_id: UUID) -> None:
        self._id = artifact_id
        self._last_s = time.monotonic()

    @classmethod
    async def start(cls, key: str, description: str) -> "Progress":
        created = await acreate_progress_artifact(progress=0.0, key=slug(key), description=description)
        return cls(created if isinstance(created, UUID) else created.id)  # type: ignore[union-attr]

    async def update(self, done: int, total: int) -> None:
        """Show `done` of `total`."""
        if time.monotonic() - self._last_s < 2.0 and done < total:
            return
        self._last_s = time.monotonic()
        await aupdate_progress_artifact(self._id, progress=100.0 * done / max(total, 1))
