"""`assay report`: a run on one HTML page. No script, no request to any host, texts escaped, every plot with its SQL.

Order: verdict, held-out, plots (learning curve, rewards, what became of every rollout, time), defects, transcripts.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from assay.errors import ConfigurationError, StoreError
from console import charts
from console.ending import count_line, infra_line
from console.images import data_uri
from console.output import cell_text, clean, clock
from console.runs import Row, literal, rows
from console.summary import QUERIES, Summary
from console.transcripts import pick
from storage.catalog import Catalog

CURVE_SQL = """
    FROM evaluations SELECT domain,
        CASE policy_kind WHEN 'base' THEN 'base' WHEN 'sft' THEN 'warm start' ELSE iteration::VARCHAR END AS step,
        policy_name, policy_kind, iteration, pass_rate, low_rate, high_rate, num_passed, num_valid
    WHERE run_id = {run} ORDER BY iteration, policy_kind <> 'base', at_s, domain"""

REWARDS_SQL = """
    WITH binned AS (
        FROM trajectories
        SELECT domain, iteration, least(floor(reward * 10 + 1e-9), 9) / 10 AS reward_bin, count(*) AS num
        WHERE run_id = {run} AND valid AND purpose = 'train' GROUP BY ALL)
    FROM binned SELECT *, num / sum(num) OVER (PARTITION BY domain, iteration) AS share
    ORDER BY domain, iteration, reward_bin"""

# Every rollout has exactly one outcome: the first line that fits.
FUNNEL_SQL = """
    WITH batched AS (
        FROM batches SELECT trajectory_id, bool_or(used) AS used, any_value(drop_reason) AS drop_reason
        WHERE run_id = {run} GROUP BY 1)
    FROM trajectories t LEFT JOIN batched b USING (trajectory_id)
    SELECT t.domain, CASE
        WHEN coalesce(t.cause, t.failure_cause) IS NOT NULL THEN 'invalid: ' || coalesce(t.cause, t.failure_cause)
        WHEN t.valid IS NULL THEN 'not verified'
        WHEN b.used THEN 'trained'
        WHEN t.purpose = 'evaluation' THEN 'held out'
        WHEN t.purpose = 'solvability' THEN 'solvability estimate'
        WHEN b.drop_reason IS NOT NULL THEN replace(b.drop_reason, '_', ' ')
        WHEN t.purpose = 'demonstration' THEN 'demonstration'
        ELSE 'not in a batch' END AS outcome, count(*) AS num
    WHERE t.run_id = {run} GROUP BY ALL ORDER BY domain, num DESC"""

DISPATCHED_SQL = "FROM raw_trajectories SELECT count(DISTINCT trajectory_id) AS num WHERE run_id = {run}"

TIME_SQL = """
    FROM runs
    SELECT stage || if(label = '', '', ' ' || label) AS stage, round(sum(wall_s), 1) AS seconds, count(*) AS times
    WHERE run_id = {run} AND event = 'stage' GROUP BY 1 ORDER BY 2 DESC"""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot of the page: what it shows, the query, its rows and the drawing (empty when there are no rows)."""

    title: str
    caption: str
    sql: str
    rows: list[Row]
    svg: str


PLOTS: tuple[tuple[str, str, str, Callable[[list[Row]], str]], ...] = (
    (
        "Learning curve",
        "Held-out pass rate, greedy, with 95 % intervals. The diamond is the warm start: demonstrations alone.",
        CURVE_SQL,
        charts.learning_curve,
    ),
    (
        "Rewards of training rollouts",
        "Share of valid trajectories per reward band and iteration. Invalid ones have no reward and are not here.",
        REWARDS_SQL,
        charts.reward_distribution,
    ),
    (
        "What became of every rollout",
        "Each dispatched rollout has exactly one outcome; the bars add up to all of them.",
        FUNNEL_SQL,
        charts.funnel,
    ),
    ("Where the time went", "Seconds per stage, all attempts together.", TIME_SQL, charts.time_by_phase),
)


def write_report(catalog: Catalog, summary: Summary, path: Path) -> None:
    """Write the page, whole or not at all. Raises StoreError when the books do not balance."""
    html = render(catalog, summary)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(html, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise ConfigurationError(f"Cannot write the report {path}: {error}. Choose a place with --out.") from error


def render(catalog: Catalog, summary: Summary) -> str:
    """The page as text."""
    plots = [_plot(catalog, summary.run_id, *plot) for plot in PLOTS]
    check_books(catalog, summary.run_id, plots[2].rows)
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell_text, "clock": clock, "clean": clean, "data_uri": data_uri}
    return environment.get_template("report.html.j2").render(
        summary=summary,
        verdict=verdict(summary),
        books=[*map(count_line, summary.counts), infra_line(summary)],
        plots=plots,
        picks=list(pick(catalog, summary)),
        queries=QUERIES,
    )


def check_books(catalog: Catalog, run_id: str, outcomes: list[Row]) -> None:
    """Raise StoreError unless the outcomes add up to the rollouts that were dispatched."""
    dispatched = rows(catalog, DISPATCHED_SQL.format(run=literal(run_id)))[0]["num"]
    told = sum(row["num"] for row in outcomes)
    if told != dispatched:
        raise StoreError(
            f"The books of run {run_id} do not balance: {dispatched} rollouts were dispatched but {told} outcomes are "
            "known. A trajectory with verdicts of two verifier versions would do this; look at the table rewards."
        )


def verdict(summary: Summary) -> tuple[str, list[str]]:
    """One word for the run (better, worse, unclear, unfinished) and a sentence per domain.

    A domain got better when the whole 95 % interval of its change lies above zero, worse when below.
    """
    standings, sentences = [], []
    for held_out in summary.held_out:
        if held_out.difference is None:
            sentences.append(f"{held_out.domain}: measured once, so there is no change to tell.")
            continue
        by, low, high = held_out.difference
        standing = "better" if low > 0 else "worse" if high < 0 else "unclear"
        standings.append(standing)
        word = {"better": "rose", "worse": "fell"}.get(standing, "did not change measurably")
        sentences.append(f"{held_out.domain}: held-out pass rate {word}, {by:+.2f} [{low:+.2f}, {high:+.2f}].")
    overall = next((word for word in ("worse", "better") if word in standings), "unclear")
    return (overall if summary.state == "finished" else summary.state), sentences


def _plot(catalog: Catalog, run_id: str, title: str, caption: str, sql: str, draw: Callable[[list[Row]], str]) -> Plot:
    asked = dedent(sql.format(run=literal(run_id))).strip()
    found = rows(catalog, asked)
    return Plot(title, caption, asked, found, draw(found) if found else "")
