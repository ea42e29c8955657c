"""In, kept, and dropped by reason: the table every stage ends with, read back from the store."""

from typing import Any

from tasks.roll_out import RolloutPlan
from tasks.run import RunRef
from tasks.workshop import workshop

_ROLLOUTS = """
SELECT domain, count(*) AS "in", count(*) FILTER (end_reason <> 'failed') AS kept,
       coalesce(string_agg(DISTINCT failure_cause, ', '), '') AS dropped, sum(num_tokens) AS num_tokens
FROM raw_trajectories WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) GROUP BY domain ORDER BY domain
"""
_VERDICTS = """
WITH causes AS (
    SELECT domain, cause, count(*) AS num FROM rewards
    WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) GROUP BY domain, cause
), passes AS (
    SELECT domain, count(*) FILTER (passed) AS passed, avg(reward) AS mean_reward FROM rewards
    WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) GROUP BY domain
)
SELECT domain, sum(num) AS "in", coalesce(sum(num) FILTER (cause IS NULL), 0) AS kept,
       coalesce(string_agg(cause || ' ' || num, ', ') FILTER (cause IS NOT NULL), '') AS dropped,
       any_value(passed) AS passed, round(any_value(mean_reward), 3) AS mean_reward
FROM causes JOIN passes USING (domain) GROUP BY domain ORDER BY domain
"""
_BATCH = """
WITH fates AS (
    SELECT domain, drop_reason, count(*) AS num FROM batches
    WHERE run_id = ? AND iteration = ? GROUP BY domain, drop_reason
)
SELECT domain, sum(num) AS "in", coalesce(sum(num) FILTER (drop_reason IS NULL), 0) AS kept,
       coalesce(string_agg(drop_reason || ' ' || num, ', ') FILTER (drop_reason IS NOT NULL), '') AS dropped
FROM fates GROUP BY domain ORDER BY domain
"""


def rollout_counts(run: RunRef, plan: RolloutPlan) -> list[dict[str, Any]]:
    """Per domain: rollouts, those that did not fail, causes of failure, tokens."""
    return _rows(run, _ROLLOUTS, [_ids(run, plan)])


def verdict_counts(run: RunRef, plan: RolloutPlan) -> list[dict[str, Any]]:
    """Per domain: verdicts, valid ones, invalid by cause, passes, mean reward."""
    ids = _ids(run, plan)
    return _rows(run, _VERDICTS, [ids, ids])


def batch_counts(run: RunRef, plan: RolloutPlan) -> list[dict[str, Any]]:
    """Per domain: trajectories seen, trained on, left out by reason."""
    return _rows(run, _BATCH, [run.run_id, plan.iteration])


def _ids(run: RunRef, plan: RolloutPlan) -> list[str]:
    return [request.id for request in plan.requests(workshop(run.config), run)]


def _rows(run: RunRef, query: str, params: list[Any]) -> list[dict[str, Any]]:
    return workshop(run.config).catalog().sql(query, params).pl().to_dicts()
