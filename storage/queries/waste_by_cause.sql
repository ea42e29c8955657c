-- What invalid rollouts cost, by cause: rollouts, seconds, tokens, and one to look at
SELECT cause, domain, count(*) AS num_rollouts,
    round(num_rollouts / (SELECT count(*) FROM trajectories), 3) AS share_rate,
    round(sum(wall_s), 1) AS wall_s, sum(num_tokens) AS num_tokens,
    arg_min(trajectory_id, started_at) AS example, arg_min(detail, started_at) AS detail
FROM trajectories
WHERE NOT valid
GROUP BY cause, domain
ORDER BY num_rollouts DESC, cause, domain
