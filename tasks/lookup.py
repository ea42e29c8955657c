"""What the store knows of given rollouts: which are done, which have a verdict, and the records themselves."""

from collections.abc import Sequence

import polars as pl

from assay.records import Trajectory, VerifiedTrajectory
from storage.rows import trajectories_from, verified_from
from tasks.stages import Stage
from tasks.workshop import Workshop

_TIMES = """
SELECT t.task_hash, count(DISTINCT b.iteration) AS times
FROM batches b JOIN raw_trajectories t USING (trajectory_id)
WHERE b.run_id = ? AND b.iteration < ?
GROUP BY 1
"""


def done_ids(shop: Workshop, trajectory_ids: Sequence[str]) -> set[str]:
    """Those of the ids that are committed."""
    return set(_rows(shop, "raw_trajectories", trajectory_ids, "trajectory_id")["trajectory_id"])


def unverified(shop: Workshop, trajectory_ids: Sequence[str]) -> list[Trajectory]:
    """Committed trajectories without a verdict of their domain's current verifier."""
    current = set(rewards_of(shop, trajectory_ids)["trajectory_id"])
    waiting = [i for i in trajectory_ids if i not in current]
    return trajectories_from(trajectories_of(shop, waiting), turns_of(shop, waiting))


def verified(shop: Workshop, trajectory_ids: Sequence[str]) -> list[VerifiedTrajectory]:
    """The verified ones among the ids, with the verdict of the current verifier, in the order of the ids."""
    done = trajectories_from(trajectories_of(shop, trajectory_ids), turns_of(shop, trajectory_ids))
    found = {v.trajectory.id: v for v in verified_from(done, rewards_of(shop, trajectory_ids))}
    return [found[i] for i in trajectory_ids if i in found]


def trajectories_of(shop: Workshop, trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `trajectories`."""
    return _rows(shop, "raw_trajectories", trajectory_ids)


def turns_of(shop: Workshop, trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `turns`."""
    return _rows(shop, "turns", trajectory_ids)


def rewards_of(shop: Workshop, trajectory_ids: Sequence[str]) -> pl.DataFrame:
    """Rows of the table `rewards`, those of each domain's current verifier."""
    rows = _rows(shop, "rewards", trajectory_ids)
    versions = {name: domain.version for name, domain in shop.domains.items()}
    current = pl.col("domain").replace_strict(versions, default="", return_dtype=pl.String)
    return rows.filter(pl.col("verifier_version") == current)


def times_trained(shop: Workshop, stage: Stage) -> dict[str, int]:
    """In how many earlier iterations of the run each task was in a batch, demonstrations included, by content hash."""
    rows = shop.catalog().sql(_TIMES, [stage.run.run_id, stage.iteration]).pl()
    return dict(rows.iter_rows())


def _rows(shop: Workshop, view: str, ids: Sequence[str], columns: str = "*") -> pl.DataFrame:
    query = f"SELECT {columns} FROM {view} WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[]))"
    return shop.catalog().sql(query, [list(ids)]).pl()
