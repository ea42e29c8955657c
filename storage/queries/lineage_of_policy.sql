-- What made the newest policy: its versions back to the base, their batches and how many trajectories each used
WITH RECURSIVE chain AS (
    SELECT policy_id, 0 AS age FROM (FROM policies ORDER BY created_at DESC, num_updates DESC, policy_id LIMIT 1)
    UNION
    SELECT p.parent, age + 1 FROM chain c JOIN policies p USING (policy_id)
    WHERE p.parent IS NOT NULL AND age < 100000
)
SELECT any_value(l.policy_name) AS policy, l.policy_id, any_value(l.kind) AS kind, any_value(l.parent) AS parent,
    l.batch_id, any_value(l.iteration) AS iteration, count(l.trajectory_id) AS num_trajectories,
    count(*) FILTER (l.used) AS num_used, count(DISTINCT l.group_id) FILTER (l.used) AS num_groups
FROM chain c JOIN lineage l USING (policy_id)
GROUP BY l.policy_id, l.batch_id
ORDER BY min(c.age) DESC, iteration, l.batch_id
