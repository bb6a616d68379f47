-- The entries of that of some labels which has the fewest behind a place: whose entry so far down is the oldest, or is none.
WITH given AS (
    SELECT key || '=' || value AS label FROM jsonb_each_text(%(labels)s::jsonb)
), rarest AS MATERIALIZED (
    SELECT wanted.label FROM given AS wanted
    ORDER BY (SELECT created_at FROM ({source}) AS entries OFFSET %(most)s - 1 LIMIT 1) NULLS FIRST
    LIMIT 1
)
SELECT entries.created_at, entries.run_id
FROM rarest AS wanted CROSS JOIN LATERAL ({source} LIMIT %(most)s) AS entries
