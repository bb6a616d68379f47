-- Of the runs that are looked at, those that fit, and the place and number of all of them.
WITH looked_at AS MATERIALIZED (
    SELECT entries.created_at, entries.run_id FROM ({source}) AS entries LIMIT %(most)s
), fitting AS (
    SELECT {r.*} FROM looked_at CROSS JOIN LATERAL (
        SELECT {listed_run.sql}
        FROM platform.runs AS r
        WHERE r.run_id = looked_at.run_id
            AND r.labels @> %(labels)s::jsonb
            AND (cardinality(%(words)s::text[]) = 0 OR {contains_words.sql})
            AND (%(subject)s::text IS NULL OR subject = %(subject)s)
            AND (%(agent)s::text IS NULL OR agent = %(agent)s)
            AND (%(state)s::text IS NULL OR state = %(state)s)
            AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
            AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
        -- One by one: for a join of the two the planner may read every run there is.
        OFFSET 0
    ) AS r
    ORDER BY r.created_at DESC, r.run_id DESC
    LIMIT %(limit)s
)
SELECT looked.count AS looked_at, looked.created_at AS last_created, looked.run_id AS last_run_id, {r.*}
FROM (
    SELECT count(*), min(created_at) AS created_at,
        (array_agg(run_id ORDER BY created_at, run_id))[1] AS run_id
    FROM looked_at
) AS looked
LEFT JOIN fitting AS r ON true
ORDER BY r.created_at DESC, r.run_id DESC
