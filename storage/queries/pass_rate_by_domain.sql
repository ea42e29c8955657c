-- How often rollouts pass, by domain and purpose; invalid ones are counted apart and vote nowhere
SELECT domain, purpose, count(*) AS num_rollouts,
    count(*) FILTER (valid) AS num_valid,
    count(*) FILTER (passed AND valid) AS num_passed,
    round(num_passed / nullif(num_valid, 0), 3) AS pass_rate,
    round(avg(reward) FILTER (valid), 3) AS mean_reward,
    count(*) FILTER (NOT valid) AS num_invalid
FROM trajectories
GROUP BY domain, purpose
ORDER BY domain, purpose
