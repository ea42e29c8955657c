-- Every domain the store has seen: what it is worth, where it is from, and how many of its tasks are proven
WITH newest AS (
    FROM domains LEFT JOIN (FROM runs SELECT run_id, min(ended_at) AS started_at GROUP BY run_id) USING (run_id)
    SELECT * QUALIFY row_number() OVER (PARTITION BY domain ORDER BY started_at DESC NULLS LAST, run_id) = 1
), standing AS (
    FROM certificates SELECT domain, task_hash, state
    QUALIFY row_number() OVER (PARTITION BY task_hash, environment_version ORDER BY issued_at DESC) = 1
), proven AS (
    FROM (FROM tasks SELECT DISTINCT domain, task_hash) t LEFT JOIN standing s USING (domain, task_hash)
    SELECT domain, count(*) AS num_tasks,
        count(*) FILTER (state = 'trusted') AS num_trusted,
        count(*) FILTER (state = 'quarantined') AS num_quarantined,
        count(*) FILTER (state IS NULL OR state = 'draft') AS num_unproven
    GROUP BY domain
)
FROM newest LEFT JOIN proven USING (domain)
SELECT domain, kind, value, source, licence, levels, expected_s, num_left_out,
    coalesce(num_tasks, 0) AS num_tasks, coalesce(num_trusted, 0) AS num_trusted,
    coalesce(num_quarantined, 0) AS num_quarantined, coalesce(num_unproven, 0) AS num_unproven
ORDER BY domain
