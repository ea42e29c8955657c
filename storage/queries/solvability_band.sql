-- How many tasks are worth training on, by domain and band, iteration by iteration
SELECT run_id, iteration, domain, band, count(*) AS num_tasks,
    round(avg(pass_rate), 3) AS mean_pass_rate, sum(num_valid) AS num_rollouts
FROM solvability
GROUP BY run_id, iteration, domain, band
ORDER BY run_id, iteration, domain, num_tasks DESC, band
