-- Held-out pass rate after each evaluated iteration, with its 95 % interval
SELECT run_id, domain, iteration, policy_name, policy_kind, num_passed, num_valid,
    round(pass_rate, 3) AS pass_rate, round(low_rate, 3) AS low_rate, round(high_rate, 3) AS high_rate,
    round(mean_reward, 3) AS mean_reward, round(at_s) AS at_s
FROM evaluations
ORDER BY run_id, domain, iteration, at_s
