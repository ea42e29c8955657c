"""What people see in the Prefect UI: tables, markdown, progress."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)

from assay.progress import Event, listening


async def table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """A table artifact; `key` is stable over runs, so the UI shows its history."""
    await acreate_table_artifact(key=slug(key), table=[dict(row) for row in rows], description=description)


async def markdown(key: str, text: str, description: str) -> None:
    await acreate_markdown_artifact(key=slug(key), markdown=text, description=description)


def slug(text: str) -> str:
    """Lowercase letters, digits and dashes, as artifact keys must be."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")


@asynccontextmanager
async def progress(stage: str, key: str, description: str) -> AsyncIterator[None]:
    """A progress artifact fed every two seconds by the `done` and `total` of a stage's events."""
    artifact_id = await acreate_progress_artifact(progress=0.0, key=slug(key), description=description)
    seen = {"percent": 0.0}

    def note(event: Event) -> None:
        if event.stage == stage and event.data.get("total"):
            seen["percent"] = 100.0 * event.data["done"] / event.data["total"]

    with listening(note):
        updates = asyncio.create_task(_keep_updating(artifact_id, seen))
        try:
            yield
        finally:
            updates.cancel()
    await aupdate_progress_artifact(artifact_id, progress=100.0)


async def _keep_updating(artifact_id: UUID, seen: Mapping[str, float]) -> None:
    while True:
        await asyncio.sleep(2.0)
        await aupdate_progress_artifact(artifact_id, progress=seen["percent"])
