"""Ten trajectories worth reading, each picked by a rule that is named beside it.

A rule is an ordering over the run's trajectories; it takes the first one that no earlier rule took.
"""

from collections.abc import Iterator

from console import show
from console.runs import Row, literal, rows
from console.summary import Summary
from storage.catalog import Catalog

MAX_PICKS = 10

# Rule -> what must hold and what comes first. {last} is the newest policy, {first} the base.
RULES = {
    "held-out task the newest policy fails": """purpose = 'evaluation' AND last_policy = {last} AND valid AND NOT passed
        ORDER BY reward DESC""",
    "held-out task the newest policy solves and the base did not": """purpose = 'evaluation' AND last_policy = {last}
        AND passed AND task_hash IN (FROM trajectories SELECT task_hash
            WHERE purpose = 'evaluation' AND valid AND NOT passed AND last_policy = {first}) ORDER BY level DESC""",
    "passed with the fewest tokens (look for a shortcut)": "passed AND purpose = 'train' ORDER BY num_tokens",
    "lowest valid reward of the newest iteration": "valid AND purpose = 'train' ORDER BY iteration DESC, reward",
    "reward nearest to the middle": "valid AND purpose = 'train' ORDER BY abs(reward - 0.5), iteration DESC",
    "longest": "valid ORDER BY num_tokens DESC",
    "most turns": "valid AND num_turns > 1 ORDER BY num_turns DESC, iteration DESC",
    "cut off by the token limit": "end_reason = 'truncated' ORDER BY iteration DESC",
    "slowest": "true ORDER BY wall_s DESC",
}
CAUSES_SQL = """
    FROM trajectories SELECT DISTINCT coalesce(cause, failure_cause) AS cause
    WHERE run_id = {run} AND (failure_cause IS NOT NULL OR valid = false) ORDER BY 1"""
INVALID = "coalesce(cause, failure_cause) = {cause} ORDER BY iteration DESC"


def pick(catalog: Catalog, summary: Summary) -> Iterator[Row]:
    """At most ten views as `show.trajectory` makes them, with `rule` and the verdict in words; one per invalid cause
    first, then by rule."""
    taken: list[str] = []
    for rule, condition in _rules(catalog, summary):
        among = f" AND trajectory_id NOT IN ({', '.join(map(literal, taken))})" if taken else ""
        where, _, order = condition.partition("ORDER BY")
        sql = (
            f"FROM trajectories SELECT trajectory_id WHERE run_id = {literal(summary.run_id)}{among} AND ({where}) "
            f"ORDER BY {order}, trajectory_id LIMIT 1"
        )
        for row in rows(catalog, sql):
            taken.append(row["trajectory_id"])
            view = show.trajectory(catalog, row["trajectory_id"])
            words = {"verdict": show.verdict_words(view), "sibling_words": show.sibling_words(view)}
            yield view | words | {"rule": rule, "rule_sql": sql}
        if len(taken) == MAX_PICKS:
            return


def _rules(catalog: Catalog, summary: Summary) -> Iterator[tuple[str, str]]:
    run = literal(summary.run_id)
    for row in rows(catalog, CAUSES_SQL.format(run=run)):
        yield f"invalid: {row['cause']}", INVALID.format(cause=literal(row["cause"]))
    last = [h.after or h.warm_start or h.before for h in summary.held_out]
    first = [h.before for h in summary.held_out]
    names = {
        key: literal(next((r.policy_id for r in rates if r), "")) for key, rates in (("last", last), ("first", first))
    }
    for rule, condition in RULES.items():
        yield rule, condition.format(**names)
