"""What the store knows of given rollouts: which are done, which have a verdict, and the records themselves.

Prefect stays out of here: commands that only read one trajectory use it too.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from assay.config import PostTrainConfig, parse_config
from assay.errors import ConfigurationError, StoreError
from assay.records import TaskSpec, Trajectory, VerifiedTrajectory
from storage.catalog import Catalog
from storage.rows import tasks_from, trajectories_from, verified_from

if TYPE_CHECKING:
    from tasks.stages import Stage
    from tasks.workshop import Workshop

_TIMES = """
SELECT t.task_hash, count(DISTINCT b.iteration) AS times
FROM batches b JOIN raw_trajectories t USING (trajectory_id)
WHERE b.run_id = ? AND b.iteration < ?
GROUP BY 1
"""

_IDS = """
SELECT DISTINCT trajectory_id FROM raw_trajectories WHERE starts_with(trajectory_id, $1)
ORDER BY trajectory_id <> $1, trajectory_id LIMIT 6
"""
_NEAR = """
SELECT trajectory_id FROM raw_trajectories GROUP BY 1 ORDER BY levenshtein(trajectory_id, $1), 1 LIMIT 3
"""
_CONFIG = """
SELECT data_json FROM runs WHERE run_id = ? AND event IN ('started', 'resumed') ORDER BY ended_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trajectory with all that is needed to play it again: its task, and the config of the run that made it."""

    trajectory: Trajectory
    task: TaskSpec
    config: PostTrainConfig


def recorded(catalog: Catalog, wanted: str) -> Recorded:
    """The trajectory with this id or unique prefix, with its turns.

    Raises ConfigurationError when none or several match, StoreError when its task or its run's config is not stored.
    """
    ids = [trajectory_id(catalog, wanted)]
    turns = _rows(catalog, "turns", ids)
    (trajectory,) = trajectories_from(_rows(catalog, "raw_trajectories", ids), turns)
    return Recorded(trajectory, task_of(catalog, trajectory), config_of(catalog, trajectory.run_id))


def trajectory_id(catalog: Catalog, wanted: str) -> str:
    """The id that a text names in full or by a unique prefix; ConfigurationError with near ones otherwise."""
    found = [row[0] for row in catalog.sql(_IDS, [wanted]).rows] if wanted else []
    if len(found) > 1 and found[0] != wanted:
        raise ConfigurationError(
            f"{wanted!r} is ambiguous among trajectories: {', '.join(found[:5])}. Type more of it."
        )
    if not found:
        near = ", ".join(row[0] for row in catalog.sql(_NEAR, [wanted]).rows) or "none, the store has no trajectories"
        raise ConfigurationError(
            f"The store has no trajectory {wanted!r}. Nearest: {near}. "
            'Find some: assay sql "FROM trajectories SELECT trajectory_id, task_id".'
        )
    return str(found[0])


def task_of(catalog: Catalog, trajectory: Trajectory) -> TaskSpec:
    """The task a trajectory was rolled out on, as it was then."""
    query = "FROM tasks WHERE task_hash = ? AND task_id = ? LIMIT 1"
    found = tasks_from(catalog.sql(query, [trajectory.task_hash, trajectory.task_id]).pl())
    if not found:
        raise StoreError(
            f"The store lacks task {trajectory.task_id} at content hash {trajectory.task_hash}, on which trajectory "
            f"{trajectory.id} was rolled out. Use the store that its run wrote to."
        )
    return found[0]


def config_of(catalog: Catalog, run_id: str) -> PostTrainConfig:
    """The config a run was last started with."""
    found = catalog.sql(_CONFIG, [run_id]).rows
    if not found:
        raise StoreError(f"The store has no config of run {run_id!r}. Use the store that the run wrote to.")
    return parse_config(json.loads(found[0][0])["config"])


def done_ids(shop: "Workshop", trajectory_ids: Sequence[str]) -> set[str]:
    """Those of the ids that are committed."""
    return set(_rows(shop.catalog(), "raw_trajectories", trajectory_ids, "trajectory_id")["trajectory_id"])


def unverified(shop: "Workshop", trajectory_ids: Sequence[str]) -> list[Trajectory]:
    """Committed trajectories without a verdict of their domain's current verifier."""
    current = set(rewards_of(shop, trajectory_ids)["trajectory_id"])
    waiting = [i for i in trajectory_ids if i not in current]
    return trajectories_from(trajectories_of(shop, waiting), turns_of(shop, waiting))


def verified(shop: "Workshop", trajectory_ids: Sequence[str]) -> list[VerifiedTrajectory]:
    """The verified ones among the ids, with the verdict of the current verifier, in the order of the ids."""
    done = trajectories_from(trajectories_of(shop, trajectory_ids), turns_of(shop, trajectory_ids))
    found = {v.trajectory.id: v for v in verified_from(done, rewards_of(shop, trajectory_ids))}
    return [found[i] for i in trajectory_ids if i in found]


def trajectories_of(shop: "Workshop", trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `trajectories`."""
    return _rows(shop.catalog(), "raw_trajectories", trajectory_ids)


def turns_of(shop: "Workshop", trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `turns`."""
    return _rows(shop.catalog(), "turns", trajectory_ids)


def rewards_of(shop: "Workshop", trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `rewards`, those of each domain's current verifier."""
    rows = _rows(shop.catalog(), "rewards", trajectory_ids)
    versions = {name: domain.version for name, domain in shop.domains.items()}
    current = pl.col("domain").replace_strict(versions, default="", return_dtype=pl.String)
    return rows.filter(pl.col("verifier_version") == current)


def times_trained(shop: "Workshop", stage: "Stage") -> dict[str, int]:
    """In how many earlier iterations of the run each task was in a batch, demonstrations included, by content hash."""
    rows = shop.catalog().sql(_TIMES, [stage.run.run_id, stage.iteration]).pl()
    return dict(rows.iter_rows())


def _rows(catalog: Catalog, view: str, ids: Sequence[str], columns: str = "*") -> pl.DataFrame:
    query = f"SELECT {columns} FROM {view} WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[]))"
    return catalog.sql(query, [list(ids)]).pl()
