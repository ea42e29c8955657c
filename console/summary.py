"""What a run came to, read from its store: the figures behind `assay run`, `assay status` and `assay report`.

Every figure is one SQL query over committed rows, so anybody can repeat it with `assay sql`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import ConfigurationError
from storage.catalog import Catalog

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rate:
    """Held-out pass rate of one policy on one domain, with its 95 % interval."""

    policy_id: str
    policy_name: str
    iteration: int
    num_passed: int
    num_valid: int
    rate: float
    low_rate: float
    high_rate: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One domain before training, after the warm start and after reinforcement learning; absent stages are None.

    `difference` is (after - before, lower end, upper end) of the 95 % interval.
    """

    domain: str
    before: Rate | None
    warm_start: Rate | None
    after: Rate | None
    difference: tuple[float, float, float] | None


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


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the end of a run tells. `state` is finished, interrupted or unfinished (running, or killed)."""

    run_id: str
    name: str
    number: int
    state: str
    stage: str
    attempt: int
    started_at: str
    last_at: str
    policy_name: str
    held_out: tuple[HeldOut, ...]
    counts: tuple[Count, ...]
    defects: tuple[Defect, ...]
    planted_missed: tuple[str, ...]
    failures: Mapping[str, int]
    failures_in_baseline: int
    seconds: Mapping[str, float]
    total_s: float
    trajectory_id: str
    store: str
    report: str

    def as_json(self) -> Row:
        """Plain values."""
        return asdict(self) | {"queries": [{"title": title, "sql": sql} for title, sql in QUERIES]}


QUERIES = (
    (
        "how each domain did",
        "FROM trajectories SELECT domain, count(*), avg(reward) FILTER (valid) GROUP BY 1",
    ),
    (
        "why rewards are zero",
        "FROM trajectories SELECT domain, end_reason, detail, count(*) WHERE reward = 0 OR NOT valid GROUP BY ALL",
    ),
    (
        "what made each policy",
        "FROM policies SELECT name, kind, parent, num_updates, created_at ORDER BY created_at",
    ),
)


def literal(value: str) -> str:
    """A SQL text literal."""
    return "'" + value.replace("'", "''") + "'"


def rows(catalog: Catalog, sql: str) -> list[Row]:
    """The rows of a query as dictionaries."""
    return list(catalog.sql(sql).pl().to_dicts())


# `at` is a word of SQL and needs its quotes.
RUNS_SQL = """
    SELECT run_id, max(name) AS name, min("at") AS started_at, max("at") AS last_at, max(attempt) AS attempt,
           arg_max(event, (attempt, "at")) AS last_event, arg_max(stage, (attempt, "at")) AS last_stage,
           arg_max(iteration, (attempt, "at")) AS last_iteration,
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


def summarise(catalog: Catalog, run_id: str | None = None, *, store: str = "", report: str = "") -> Summary:
    """The summary of a run (default: the newest). ConfigurationError when there is no such run."""
    run = find_run(catalog, run_id)
    run_id = str(run["run_id"])
    failures = {row["cause"]: row["n"] for row in rows(catalog, FAILURES_SQL.format(run=literal(run_id)))}
    defects, missed = _defects(catalog, run)
    return Summary(
        run_id=run_id,
        name=run["name"],
        number=run["number"],
        state=run["state"],
        stage=run["last_stage"],
        attempt=run["attempt"],
        started_at=run["started_at"],
        last_at=run["last_at"],
        policy_name=_newest_policy(catalog, run_id),
        held_out=tuple(_held_out(catalog, run_id)),
        counts=tuple(_counts(catalog, run)),
        defects=defects,
        planted_missed=missed,
        failures=failures,
        failures_in_baseline=rows(catalog, IMPURE_SQL.format(run=literal(run_id)))[0]["n"],
        seconds={row["stage"]: row["seconds"] for row in rows(catalog, SECONDS_SQL.format(run=literal(run_id)))},
        total_s=rows(catalog, TOTAL_SQL.format(run=literal(run_id)))[0]["seconds"],
        trajectory_id=_one_to_read(catalog, run_id),
        store=store,
        report=report,
    )


def _standing(row: Row) -> Row:
    started = json.loads(row["started_json"] or "{}")
    states = {"finished": "finished", "interrupted": "interrupted"}
    state = states.get(row["last_event"], "unfinished") if row["last_stage"] == "run" else "unfinished"
    return {"number": int(started.get("number", 0)), "state": state, "config": started.get("config") or {}}


HELD_OUT_SQL = """
    FROM evaluations SELECT policy_version AS policy_id, policy_name, policy_kind, iteration, domain,
           num_passed, num_valid, pass_rate AS rate, low_rate, high_rate
    WHERE run_id = {run} ORDER BY domain, iteration, at_s"""


def _held_out(catalog: Catalog, run_id: str) -> Iterator[HeldOut]:
    by_domain: dict[str, dict[str, Rate]] = {}
    for row in rows(catalog, HELD_OUT_SQL.format(run=literal(run_id))):
        domain, kind = row.pop("domain"), row.pop("policy_kind")
        # Later rows of a kind replace earlier ones: what stays is the newest policy of each kind.
        by_domain.setdefault(domain, {})[kind] = Rate(**row)
    for domain, kinds in by_domain.items():
        before, warm, after = kinds.get("base"), kinds.get("sft"), kinds.get("grpo")
        yield HeldOut(domain, before, warm, after, _difference(catalog, domain, before, after or warm))


# Valid greedy results on the same held-out tasks under two policies; a task that is invalid under one has no pair.
PAIRS_SQL = """
    WITH judged AS (
        FROM trajectories SELECT task_hash, first_policy, bool_or(passed) AS passed
        WHERE purpose = 'evaluation' AND valid AND domain = {domain} AND first_policy IN ({before}, {after})
        GROUP BY ALL)
    FROM judged b JOIN judged a USING (task_hash) SELECT b.passed AS before, a.passed AS after
    WHERE b.first_policy = {before} AND a.first_policy = {after}"""


def _difference(
    catalog: Catalog, domain: str, before: Rate | None, after: Rate | None
) -> tuple[float, float, float] | None:
    """After minus before on the same tasks (Newcombe's paired 95 % interval)."""
    if before is None or after is None:
        return None
    from quality.statistics import paired_change

    names = {"domain": domain, "before": before.policy_id, "after": after.policy_id}
    pairs = rows(catalog, PAIRS_SQL.format(**{key: literal(value) for key, value in names.items()}))
    if not pairs:
        return None
    change = paired_change([pair["before"] for pair in pairs], [pair["after"] for pair in pairs])
    return change.difference, change.low, change.high


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

BANDS_SQL = """
    WITH newest AS (
        FROM solvability SELECT * WHERE run_id = {run}
        QUALIFY row_number() OVER (PARTITION BY task_hash ORDER BY iteration DESC, num_valid DESC) = 1)
    FROM newest SELECT band AS reason, count(*) AS n GROUP BY 1"""

FAILURES_SQL = """
    FROM trajectories SELECT coalesce(cause, failure_cause) AS cause, count(*) AS n
    WHERE run_id = {run} AND (failure_cause IS NOT NULL OR valid = false) GROUP BY 1 ORDER BY n DESC, 1"""

ROLLOUTS_SQL = """
    FROM trajectories SELECT
        CASE WHEN valid THEN 'valid' ELSE coalesce(cause, failure_cause, 'not verified') END AS reason, count(*) AS n
    WHERE run_id = {run} GROUP BY 1"""

BATCHES_SQL = """
    FROM batches SELECT CASE WHEN used THEN 'used' ELSE coalesce(drop_reason, 'not used') END AS reason, count(*) AS n
    WHERE run_id = {run} AND kind = 'grpo' GROUP BY 1"""

IMPURE_SQL = """
    FROM batches b JOIN trajectories t USING (trajectory_id) SELECT count(*) AS n
    WHERE b.run_id = {run} AND b.in_baseline AND NOT coalesce(t.valid, false)"""

SECONDS_SQL = """
    FROM runs SELECT stage, sum(wall_s) AS seconds WHERE run_id = {run} AND event = 'stage'
    GROUP BY 1 ORDER BY 2 DESC"""

TOTAL_SQL = """
    FROM runs SELECT greatest(coalesce(max(wall_s) FILTER (stage = 'run'), 0.0),
                              coalesce(sum(wall_s) FILTER (event = 'stage'), 0.0)) AS seconds
    WHERE run_id = {run}"""

# A right-in-part answer of the newest iteration teaches a reader most; then any that was judged; then any at all.
READ_SQL = """
    FROM trajectories SELECT trajectory_id WHERE run_id = {run}
    ORDER BY coalesce(reward > 0 AND reward < 1, false) DESC, coalesce(valid, false) DESC, iteration DESC,
             trajectory_id LIMIT 1"""

POLICY_SQL = """
    FROM policies SELECT name WHERE run_id = {run} ORDER BY num_updates DESC, created_at DESC LIMIT 1"""


def certificates_sql(run: Row) -> str:
    """The query for the standing of the run's tasks."""
    domains = ", ".join(map(literal, run["config"].get("domains") or [""]))
    return CERTIFICATES_SQL.format(runs=", ".join(map(literal, run["peers"])), domains=domains)


def _counts(catalog: Catalog, run: Row) -> Iterator[Count]:
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


def _defects(catalog: Catalog, run: Row) -> tuple[tuple[Defect, ...], tuple[str, ...]]:
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


def _newest_policy(catalog: Catalog, run_id: str) -> str:
    found = rows(catalog, POLICY_SQL.format(run=literal(run_id)))
    return str(found[0]["name"]) if found else ""


def _one_to_read(catalog: Catalog, run_id: str) -> str:
    found = rows(catalog, READ_SQL.format(run=literal(run_id)))
    return str(found[0]["trajectory_id"]) if found else ""
