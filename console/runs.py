"""Runs of a store: which there are, where they stand, and how the console asks about them."""

import json
from typing import Any

from assay.errors import ConfigurationError
from storage.catalog import Catalog

Row = dict[str, Any]


def literal(value: str) -> str:
    """A SQL text literal."""
    return "'" + value.replace("'", "''") + "'"


def rows(catalog: Catalog, sql: str) -> list[Row]:
    """The rows of a query as dictionaries."""
    return list(catalog.sql(sql).pl().to_dicts())


# `at` is a word of SQL and needs its quotes.
RUNS_SQL = """
    SELECT run_id, max(name) AS name, min(ended_at) AS started_at, max(ended_at) AS last_at, max(attempt) AS attempt,
           arg_max(event, (attempt, ended_at)) AS last_event, arg_max(stage, (attempt, ended_at)) AS last_stage,
           arg_max(iteration, (attempt, ended_at)) AS last_iteration,
           coalesce(sum(wall_s) FILTER (event = 'stage'), 0.0) AS stages_s,
           any_value(data_json) FILTER (event IN ('started', 'resumed')) AS started_json
    FROM runs GROUP BY run_id ORDER BY last_at DESC"""


def all_runs(catalog: Catalog) -> list[Row]:
    """One row per run, newest first, with the number its config gave it and the state it is in."""
    return [row | _standing(row) for row in rows(catalog, RUNS_SQL)]


def find_run(catalog: Catalog, run_id: str | None = None) -> Row:
    """The run with this id or unique prefix, or the newest, with `peers`: the runs on the same tasks, itself included.

    Raises ConfigurationError when there is none.
    """
    known = all_runs(catalog)
    found = [row for row in known if row["run_id"].startswith(run_id or "")]
    exact = [row for row in found if row["run_id"] == run_id]
    if not found:
        named = f"no run {run_id!r}" if run_id else "no run yet"
        raise ConfigurationError(f"The store has {named}. `assay status` lists runs; `assay run` starts one.")
    if run_id and not exact and len(found) > 1:
        raise ConfigurationError(f"Run {run_id!r} is ambiguous: {', '.join(row['run_id'] for row in found[:5])}.")
    chosen = (exact or found)[0]
    seed = chosen["config"].get("seed")
    return chosen | {"peers": [row["run_id"] for row in known if row["config"].get("seed") == seed]}


def _standing(row: Row) -> Row:
    started = json.loads(row["started_json"] or "{}")
    states = {"finished": "finished", "interrupted": "interrupted"}
    state = states.get(row["last_event"], "unfinished") if row["last_stage"] == "run" else "unfinished"
    return {"number": int(started.get("number", 0)), "state": state, "config": started.get("config") or {}}
