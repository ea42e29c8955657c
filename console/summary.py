"""What a run came to, read from its store: the figures behind `assay run`, `assay status` and `assay report`.

Every figure is one SQL query over committed rows, so anybody can repeat it with `assay sql`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from console.books import Count, Defect, counts, defects
from console.runs import Row, find_run, literal, rows
from storage.catalog import Catalog


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


def summarise(catalog: Catalog, run_id: str | None = None, *, store: str = "", report: str = "") -> Summary:
    """The summary of a run (default: the newest). ConfigurationError when there is no such run."""
    run = find_run(catalog, run_id)
    run_id = str(run["run_id"])
    failures = {row["cause"]: row["n"] for row in rows(catalog, FAILURES_SQL.format(run=literal(run_id)))}
    caught, missed = defects(catalog, run)
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
        counts=tuple(counts(catalog, run)),
        defects=caught,
        planted_missed=missed,
        failures=failures,
        failures_in_baseline=rows(catalog, IMPURE_SQL.format(run=literal(run_id)))[0]["n"],
        seconds={row["stage"]: row["seconds"] for row in rows(catalog, SECONDS_SQL.format(run=literal(run_id)))},
        total_s=rows(catalog, TOTAL_SQL.format(run=literal(run_id)))[0]["seconds"],
        trajectory_id=_one_to_read(catalog, run_id),
        store=store,
        report=report,
    )


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


FAILURES_SQL = """
    FROM trajectories SELECT coalesce(cause, failure_cause) AS cause, count(*) AS n
    WHERE run_id = {run} AND (failure_cause IS NOT NULL OR valid = false) GROUP BY 1 ORDER BY n DESC, 1"""

IMPURE_SQL = """
    FROM batches b JOIN trajectories t USING (trajectory_id) SELECT count(*) AS n
    WHERE b.run_id = {run} AND b.in_baseline AND NOT coalesce(t.valid, false)"""

SECONDS_SQL = """
    FROM runs SELECT stage || if(label = '', '', ' ' || label) AS stage, sum(wall_s) AS seconds
    WHERE run_id = {run} AND event = 'stage' GROUP BY 1 ORDER BY 2 DESC"""

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


def _newest_policy(catalog: Catalog, run_id: str) -> str:
    found = rows(catalog, POLICY_SQL.format(run=literal(run_id)))
    return str(found[0]["name"]) if found else ""


def _one_to_read(catalog: Catalog, run_id: str) -> str:
    found = rows(catalog, READ_SQL.format(run=literal(run_id)))
    return str(found[0]["trajectory_id"]) if found else ""
