-- A decision of a caller's runs at or behind the edge that is of the time asked for. Of the week before the edge the runs are
-- looked at: the last decision of one is of that time, where any is. Of runs before that the decisions of that time are. As
-- many of either are looked at as decisions were; where there are more, one may be the caller's.
SELECT FROM (
    SELECT platform.first_run_id(to_timestamp(
        ('x' || left(replace(edge.run_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0
    ) - interval '1 week') AS run_id
) AS week
WHERE EXISTS (
    SELECT FROM (
        SELECT r.run_id, r.agent, r.ended_at, row_number() OVER (ORDER BY r.run_id DESC) AS number FROM platform.runs AS r
        WHERE r.subject = %(subject)s AND r.run_id <= edge.run_id AND r.run_id >= week.run_id
            AND r.run_id >= %(oldest_run_id)s::uuid
        ORDER BY r.run_id DESC
        LIMIT %(most)s
    ) AS older
    LEFT JOIN LATERAL (
        SELECT d.decided_at FROM platform.decisions AS d
        WHERE d.run_id = older.run_id AND (d.run_id, d.sequence) <= (edge.run_id, edge.sequence)
            AND older.agent = %(agent)s AND (older.ended_at IS NULL OR older.ended_at >= %(since)s::timestamptz)
        ORDER BY d.sequence DESC
        LIMIT 1
    ) AS d ON true
    WHERE older.number = %(most)s OR d.decided_at >= %(since)s::timestamptz
) OR EXISTS (
    SELECT FROM (
        -- Numbered before anything of them is asked: past what fits none of this, all of that time would be read.
        SELECT d.run_id, d.agent, row_number() OVER () AS number FROM ({rules_of_agent.sql}) AS chosen
        CROSS JOIN LATERAL (
            SELECT d.run_id, d.agent FROM platform.decisions AS d
            WHERE d.router = chosen.router AND d.rule = chosen.rule AND d.decided_at >= %(since)s::timestamptz
            ORDER BY d.decided_at
            LIMIT %(most)s
        ) AS d
        LIMIT %(most)s
    ) AS late
    WHERE late.number = %(most)s
        OR (late.run_id < week.run_id AND late.run_id >= %(oldest_run_id)s::uuid AND late.agent = %(agent)s
            AND EXISTS (SELECT FROM platform.runs AS r WHERE r.run_id = late.run_id AND r.subject = %(subject)s))
)
