-- Defects that inspection found, with the evidence and the standing they gave the task
WITH standing AS (
    SELECT task_hash, arg_max(state, issued_at) AS state FROM certificates GROUP BY task_hash
)
SELECT e.task_id, e.probe, e.summary, coalesce(s.state, 'not certified') AS state, e.evidence_id
FROM evidence e LEFT JOIN standing s USING (task_hash)
WHERE e.finding = 'found'
ORDER BY e.task_id, e.probe, e.evidence_id
