-- Rewards of valid training rollouts in tenths, by domain and iteration
SELECT domain, iteration, floor(least(reward, 1.0) * 10 + 1e-9) / 10 AS reward_from, count(*) AS num_rollouts,
    round(count(*) / sum(count(*)) OVER (PARTITION BY domain, iteration), 3) AS share_rate
FROM trajectories
WHERE valid AND purpose = 'train'
GROUP BY ALL
ORDER BY domain, iteration, reward_from
