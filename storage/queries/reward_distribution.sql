-- Rewards of valid training rollouts in tenths, by domain and iteration
WITH tenths AS (
    SELECT domain, iteration, floor(reward * 10 + 1e-9) / 10 AS reward_from, count(*) AS num_rollouts
    FROM trajectories
    WHERE valid AND purpose = 'train'
    GROUP BY ALL
)
SELECT *, round(num_rollouts / sum(num_rollouts) OVER (PARTITION BY domain, iteration), 3) AS share_rate
FROM tenths
ORDER BY domain, iteration, reward_from
