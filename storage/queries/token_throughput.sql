-- Tokens sampled and tokens per second of sampling, by run, iteration, purpose and domain
WITH sampled AS (
    SELECT trajectory_id, sum(len(completion_ids)) AS num_tokens, sum(sample_s) AS sample_s
    FROM turns GROUP BY trajectory_id
)
SELECT t.run_id, t.iteration, t.purpose, t.domain, count(*) AS num_rollouts,
    sum(s.num_tokens) AS num_tokens, round(sum(s.sample_s), 1) AS sample_s,
    round(sum(s.num_tokens) / nullif(sum(s.sample_s), 0), 1) AS tokens_per_s,
    round(avg(s.num_tokens), 1) AS mean_tokens
FROM raw_trajectories t JOIN sampled s USING (trajectory_id)
GROUP BY t.run_id, t.iteration, t.purpose, t.domain
ORDER BY t.run_id, t.iteration, t.purpose, t.domain
