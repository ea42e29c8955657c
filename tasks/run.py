"""Which run a flow belongs to, and what happened in it when.

A run is a config plus a number. Starting a config whose newest run is unfinished resumes that run (same `run_id`,
next attempt), otherwise the next number begins; so killing and restarting loses nothing and repeats nothing.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from assay.config import PostTrainConfig, StageConfig
from assay.errors import ConfigurationError
from assay.ids import canonical_json, derive_seed, short_id
from storage.store import Store


@dataclass(frozen=True, slots=True)
class RunRef:
    """A run as flows hand it around: small, picklable, no rows."""

    run_id: str
    number: int
    attempt: int
    started_at: str
    config: PostTrainConfig

    @property
    def name(self) -> str:
        return f"{self.config.name} #{self.number}"

    @property
    def sampling_seed(self) -> int:
        """Part of every rollout's identity: a new run of an equal config samples afresh."""
        return derive_seed(self.config.seed, "sampling", self.number) % 2**31

    def elapsed_s(self) -> float:
        """Seconds since the run was first started."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.started_at)).total_seconds()


def now() -> str:
    """UTC time of day."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def run_id_of(config: PostTrainConfig, number: int) -> str:
    return short_id("r", [config.digest(), number])


def begin_run(store: Store, config: PostTrainConfig) -> RunRef:
    """The run to work on: the config's unfinished one, or the next. Records that it (re)started."""
    number, attempt, started_at = _next_run(store.frame("runs"), config)
    run = RunRef(run_id_of(config, number), number, attempt, started_at or now(), config)
    event = "started" if attempt == 1 else "resumed"
    record_event(store, run, event, "run", 0, 0.0, {"config": config.model_dump(mode="json"), "number": number})
    return run


def find_run(store: Store, stage: StageConfig) -> RunRef:
    """The run a lone stage works on: the one named, else the config's newest, else a new one."""
    runs = store.frame("runs").filter(pl.col("event").is_in(["started", "resumed"]))
    if stage.run_id:
        runs = runs.filter(pl.col("run_id") == stage.run_id)
        if runs.is_empty():
            raise ConfigurationError(f"No run {stage.run_id!r} in {store.uri}; `assay status` lists the runs.")
    else:
        runs = runs.filter(pl.col("config_digest") == stage.run.digest())
    if runs.is_empty():
        return begin_run(store, stage.run)
    return _run_from(runs)


def _run_from(runs: pl.DataFrame) -> RunRef:
    import json

    newest = runs.sort("ended_at").row(-1, named=True)
    first = runs.filter(pl.col("run_id") == newest["run_id"]).sort("ended_at").row(0, named=True)
    data = json.loads(newest["data_json"])
    config = PostTrainConfig(**data["config"])
    return RunRef(newest["run_id"], int(data["number"]), int(newest["attempt"]), first["ended_at"], config)


def _next_run(runs: pl.DataFrame, config: PostTrainConfig) -> tuple[int, int, str | None]:
    mine = runs.filter((pl.col("config_digest") == config.digest()) & (pl.col("stage") == "run"))
    starts = mine.filter(pl.col("event").is_in(["started", "resumed"]))
    if starts.is_empty():
        return 1, 1, None
    last = _run_from(starts)
    if not mine.filter((pl.col("run_id") == last.run_id) & (pl.col("event") == "finished")).is_empty():
        return last.number + 1, 1, None
    return last.number, last.attempt + 1, last.started_at


def record_event(
    store: Store,
    run: RunRef,
    event: str,
    stage: str,
    iteration: int,
    wall_s: float,
    data: dict[str, Any],
    *,
    label: str = "",
) -> None:
    """One row of the table `runs`."""
    row = {
        "run_id": run.run_id,
        "event": event,
        "stage": stage,
        "label": label,
        "iteration": iteration,
        "attempt": run.attempt,
        "name": run.config.name,
        "config_digest": run.config.digest(),
        "ended_at": now(),
        "wall_s": wall_s,
        "data_json": canonical_json(data),
    }
    key = "/".join([run.run_id, event, stage, label or "-", str(iteration), str(run.attempt)])
    store.commit("runs", [row], key=key, run_id=run.run_id)


@asynccontextmanager
async def timed(
    store: Store, run: RunRef, stage: str, iteration: int, *, label: str = ""
) -> AsyncIterator[dict[str, Any]]:
    """Record how long a stage took and the figures put into the yielded dict; nothing is recorded if it fails.

    `label` tells apart several passes of one stage in one iteration.
    """
    data: dict[str, Any] = {}
    begin = time.monotonic()
    yield data
    record_event(store, run, "stage", stage, iteration, time.monotonic() - begin, data, label=label)
