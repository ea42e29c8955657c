"""A run's books: what went into each stage, what was kept, what was dropped and why; and which defects were caught."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from console.runs import Row, literal, rows
from storage.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Count:
    """One stage's books: `num_in` = `num_kept` + the sum of `dropped` by reason."""

    stage: str
    what: str
    num_in: int
    num_kept: int
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Defect:
    """A task that inspection caught, with one line of evidence; `planted` ones were broken on purpose."""

    task_id: str
    domain: str
    probe: str
    evidence: str
    planted: bool


# The newest certificate of each task. A task proven by an earlier run is not inspected again, so the certificates of
# runs on the same tasks (equal seed) count too.
CERTIFICATES_SQL = """
    FROM certificates SELECT * WHERE run_id IN ({runs}) AND domain IN ({domains})
    QUALIFY row_number() OVER (PARTITION BY task_id ORDER BY issued_at DESC) = 1"""

STANDING_SQL = """
    WITH standing AS ({certificates})
    FROM standing SELECT count(*) AS n,
        CASE state WHEN 'trusted' THEN state ELSE coalesce(split_part(reasons[1], ':', 1), state) END AS reason
    GROUP BY 2"""

EVIDENCE_SQL = """
    WITH standing AS ({certificates})
    FROM standing s LEFT JOIN evidence e ON list_contains(s.evidence_ids, e.evidence_id) AND e.finding = 'found'
    SELECT s.task_id, s.domain, s.state, s.reasons, e.probe, e.summary
    QUALIFY row_number() OVER (PARTITION BY s.task_id, s.task_hash ORDER BY e.probe NULLS LAST) = 1
    ORDER BY s.domain, s.task_id"""

# Tasks too little is known about stay in: only a proven band keeps one out.
BANDS_SQL = """
    WITH newest AS (
        FROM solvability SELECT * WHERE run_id = {run}
        QUALIFY row_number() OVER (PARTITION BY task_hash ORDER BY iteration DESC, num_valid DESC) = 1)
    FROM newest SELECT if(band = 'unknown', 'trainable', band) AS reason, count(*) AS n GROUP BY 1"""

ROLLOUTS_SQL = """
    FROM trajectories SELECT
        CASE WHEN valid THEN 'valid' ELSE coalesce(cause, failure_cause, 'not verified') END AS reason, count(*) AS n
    WHERE run_id = {run} GROUP BY 1"""

BATCHES_SQL = """
    FROM batches SELECT CASE WHEN used THEN 'used' ELSE coalesce(drop_reason, 'not used') END AS reason, count(*) AS n
    WHERE run_id = {run} AND kind = 'grpo' GROUP BY 1"""


def certificates_sql(run: Row) -> str:
    """The query for the standing of the run's tasks."""
    domains = ", ".join(map(literal, run["config"].get("domains") or [""]))
    return CERTIFICATES_SQL.format(runs=", ".join(map(literal, run["peers"])), domains=domains)


def counts(catalog: Catalog, run: Row) -> Iterator[Count]:
    """The books of each stage that has any."""
    run_id = literal(run["run_id"])
    tasks = STANDING_SQL.format(certificates=certificates_sql(run))
    for stage, what, kept, sql in (
        ("inspect", "tasks", "trusted", tasks),
        ("solvability", "tasks", "trainable", BANDS_SQL.format(run=run_id)),
        ("rollout", "trajectories", "valid", ROLLOUTS_SQL.format(run=run_id)),
        ("train", "trajectories", "used", BATCHES_SQL.format(run=run_id)),
    ):
        by_reason = {row["reason"]: row["n"] for row in rows(catalog, sql)}
        if by_reason:
            total = sum(by_reason.values())
            yield Count(stage, what, total, by_reason.pop(kept, 0), by_reason)


def defects(catalog: Catalog, run: Row) -> tuple[tuple[Defect, ...], tuple[str, ...]]:
    """The defective tasks that were caught, and the planted ones that were not."""
    caught, missed = [], []
    for row in rows(catalog, EVIDENCE_SQL.format(certificates=certificates_sql(run))):
        planted = is_planted(row["task_id"])
        if row["state"] == "quarantined":
            evidence = row["summary"] or "; ".join(row["reasons"])
            caught.append(Defect(row["task_id"], row["domain"], row["probe"] or "", evidence, planted))
        elif planted:
            missed.append(row["task_id"])
    # What nobody planted is news and comes first.
    return tuple(sorted(caught, key=lambda defect: defect.planted)), tuple(missed)


def is_planted(task_id: str) -> bool:
    """Whether a task was broken on purpose, which its id tells."""
    return "defect" in task_id
