-- Rollouts without a valid verdict in any group's baseline; must have no rows
SELECT b.batch_id, b.iteration, b.group_id, b.trajectory_id, b.domain, t.valid, t.cause, t.detail
FROM batches b LEFT JOIN trajectories t USING (trajectory_id)
WHERE b.in_baseline AND t.valid IS DISTINCT FROM true
ORDER BY b.iteration, b.batch_id, b.trajectory_id
