-- Why rewards are 0 or missing: a wrong answer (with the terms that failed), a limit, or a fault outside the policy
WITH judged AS (
    SELECT domain, trajectory_id,
        CASE
            WHEN valid IS NULL THEN 'not verified yet'
            WHEN NOT valid THEN 'invalid: ' || cause
            WHEN end_reason = 'truncated' THEN 'ran out of tokens'
            WHEN end_reason = 'max_turns' THEN 'ran out of turns'
            WHEN end_reason = 'agent_timeout' THEN 'ran out of time'
            ELSE 'wrong: ' || array_to_string([t.name FOR t IN terms IF t.value = 0 AND t.weight > 0], ', ')
        END AS why
    FROM trajectories
    WHERE reward IS NULL OR reward = 0
)
SELECT domain, why, count(*) AS num_rollouts,
    round(num_rollouts / sum(num_rollouts) OVER (PARTITION BY domain), 3) AS share_rate,
    min(trajectory_id) AS example
FROM judged
GROUP BY domain, why
ORDER BY domain, num_rollouts DESC, why
