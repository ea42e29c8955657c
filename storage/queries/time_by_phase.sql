-- Where the seconds of each run went, stage by stage
SELECT run_id, stage, label, count(*) AS num_passes, round(sum(wall_s), 1) AS wall_s,
    round(sum(wall_s) / nullif(sum(sum(wall_s)) OVER (PARTITION BY run_id), 0), 3) AS share_rate
FROM runs
WHERE event = 'stage'
GROUP BY run_id, stage, label
ORDER BY run_id, wall_s DESC, stage, label
