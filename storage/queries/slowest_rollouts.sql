-- The twenty rollouts that took longest, and whether sampling or the environment did
SELECT t.trajectory_id, t.domain, t.task_id, t.purpose, t.end_reason, t.num_turns, t.num_tokens,
    round(t.wall_s, 2) AS wall_s, round(s.sample_s, 2) AS sample_s, round(s.act_s, 2) AS act_s,
    round(t.verify_s, 2) AS verify_s, t.sandbox
FROM trajectories t
LEFT JOIN (
    SELECT trajectory_id, sum(sample_s) AS sample_s, sum(act_s) AS act_s FROM turns GROUP BY trajectory_id
) s USING (trajectory_id)
ORDER BY t.wall_s DESC, t.trajectory_id
LIMIT 20
