WITH gone AS (
    DELETE FROM platform.store WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM platform.store WHERE expires_at <= now() LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING CASE scope WHEN 'agent' THEN owner ELSE '' END AS agent, pg_column_size(value) + 200 AS size
)
SELECT agent, count(*), coalesce(sum(size), 0) FROM gone GROUP BY agent
