-- Chance that any of k samples passes (pass@k) and that all k do (pass^k), by domain and policy, unbiased
WITH groups AS (
    SELECT domain, first_policy AS policy_id, group_id,
        count(*) FILTER (valid) AS n, count(*) FILTER (valid AND passed) AS c
    FROM trajectories
    WHERE temperature > 0 AND purpose IN ('train', 'solvability')
    GROUP BY ALL
),
at_k AS (
    SELECT g.*, k,
        1 - list_product([greatest(n - c - i, 0) / (n - i) FOR i IN range(k)]) AS any_rate,
        list_product([greatest(c - i, 0) / (n - i) FOR i IN range(k)]) AS all_rate
    FROM groups g, (VALUES (1), (2), (4), (8)) AS ks (k)
    WHERE n >= k
)
SELECT a.domain, coalesce(p.name, a.policy_id) AS policy, a.k, count(*) AS num_groups,
    round(avg(any_rate), 3) AS pass_at_k_rate, round(avg(all_rate), 3) AS pass_hat_k_rate
FROM at_k a LEFT JOIN policies p USING (policy_id)
GROUP BY a.domain, a.policy_id, p.name, p.num_updates, a.k
ORDER BY a.domain, p.num_updates, policy, a.k
