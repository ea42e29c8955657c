-- From tasks to training: what went in, what was kept, and why the rest was dropped
WITH standing AS (
    SELECT task_hash, arg_max(state, issued_at) AS state FROM certificates GROUP BY task_hash
),
judged AS (
    SELECT run_id, task_hash, arg_max(band, iteration) AS band FROM solvability GROUP BY ALL
),
fates AS (
    SELECT t.run_id,
        CASE
            WHEN bool_or(b.used) THEN 'trained'
            WHEN bool_or(b.batch_id IS NOT NULL) THEN coalesce(any_value(t.cause), any_value(b.drop_reason), 'dropped')
            WHEN any_value(t.valid) IS NULL THEN 'not verified yet'
            WHEN NOT any_value(t.valid) THEN any_value(t.cause)
            ELSE 'not in a batch'
        END AS fate
    FROM trajectories t LEFT JOIN batches b USING (trajectory_id)
    WHERE t.purpose = 'train'
    GROUP BY t.run_id, t.trajectory_id
),
counts AS (
    SELECT t.run_id, 1 AS place, 'tasks' AS stage, coalesce(s.state, 'not inspected') AS what, count(*) AS num
    FROM tasks t LEFT JOIN standing s USING (task_hash) GROUP BY ALL
    UNION ALL
    SELECT run_id, 2, 'solvability', band, count(*) FROM judged GROUP BY ALL
    UNION ALL
    SELECT run_id, 3, 'rollouts', fate, count(*) FROM fates GROUP BY ALL
)
SELECT run_id, stage, what, num, sum(num) OVER (PARTITION BY run_id, stage) AS num_in
FROM counts
ORDER BY run_id, place, num DESC, what
