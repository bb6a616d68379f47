-- Run ids sort by the time they were made, so the primary key finds what is old. Those of a run that took long stay until it
-- has ended for as long, or is gone.
WITH old AS (
    SELECT d.run_id, d.sequence FROM platform.decisions AS d
    WHERE d.run_id < %(oldest_kept)s::uuid
        AND (d.agent = %(agent)s OR (%(agent)s::text IS NULL AND d.agent <> ALL (%(others)s)))
        AND NOT EXISTS (SELECT 1 FROM platform.runs AS r WHERE r.run_id = d.run_id
            AND (r.ended_at IS NULL OR r.ended_at >= %(decided_until)s))
    ORDER BY d.run_id, d.sequence
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM platform.decisions AS d USING old WHERE d.run_id = old.run_id AND d.sequence = old.sequence
    RETURNING d.agent, pg_column_size(d.facts) + pg_column_size(d.grounds) + pg_column_size(d.rejected_rules)
        + pg_column_size(d.calls) + 250 AS size
)
SELECT agent, count(*), sum(size) FROM gone GROUP BY agent
