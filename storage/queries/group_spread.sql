-- Which groups carry signal: those whose valid rewards differ; the others are all right, all wrong or equal
WITH groups AS (
    SELECT domain, iteration, group_id, count(*) FILTER (valid) AS num_valid,
        min(reward) AS low, max(reward) AS high, stddev_pop(reward) AS spread
    FROM trajectories
    WHERE purpose = 'train'
    GROUP BY ALL
)
SELECT domain, iteration, count(*) AS num_groups,
    count(*) FILTER (high > low) AS num_with_signal,
    round(num_with_signal / num_groups, 3) AS signal_rate,
    count(*) FILTER (low = 1) AS num_all_right,
    count(*) FILTER (high = 0) AS num_all_wrong,
    count(*) FILTER (num_valid < 2) AS num_too_few_valid,
    round(avg(spread), 3) AS mean_spread
FROM groups
GROUP BY domain, iteration
ORDER BY domain, iteration
