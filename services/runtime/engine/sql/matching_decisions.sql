-- Of the decisions that are looked at, those that fit, and the place and number of all of them.
WITH looked_at AS MATERIALIZED ({source}), fitting AS (
    SELECT d.run_id, d.sequence, {decision_columns.sql} FROM looked_at AS d
    WHERE decision_id IS NOT NULL
        AND (%(agent)s::text IS NULL OR agent = %(agent)s) AND (%(router)s::text IS NULL OR router = %(router)s)
        AND (%(rule)s::text IS NULL OR rule = %(rule)s)
        AND (%(destination)s::text IS NULL OR destination = %(destination)s)
        AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
        AND (%(until)s::timestamptz IS NULL OR decided_at < %(until)s::timestamptz)
    ORDER BY run_id DESC, sequence DESC
    LIMIT %(limit)s
)
SELECT looked.count AS looked_at, looked.run_id AS last_run_id, looked.sequence AS last_sequence, d.run_id, d.sequence,
    {decision_columns.sql}
FROM (
    SELECT count(*), (array_agg(run_id ORDER BY run_id, sequence))[1] AS run_id,
        (array_agg(sequence ORDER BY run_id, sequence))[1] AS sequence
    FROM looked_at
) AS looked
LEFT JOIN fitting AS d ON true
ORDER BY d.run_id DESC, d.sequence DESC
