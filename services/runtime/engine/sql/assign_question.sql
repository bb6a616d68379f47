-- Names who may answer besides, or nobody. Whoever was only named names no other.
WITH asked AS MATERIALIZED (
    SELECT q.run_id, q.input_request_id, q.state, q.expires_at, q.subject = %(subject)s AS own,
        r.roles <@ %(roles)s::text[] AS has_roles, {answer_right.sql} AS granted
    FROM platform.questions AS q JOIN platform.runs AS r USING (run_id)
    WHERE q.run_id = %(run_id)s AND q.input_request_id = %(input_request_id)s
    FOR UPDATE OF q
), judged AS MATERIALIZED (
    SELECT run_id, input_request_id, CASE
        WHEN granted IS NULL AND NOT own THEN 'not_found'
        WHEN granted IS NULL AND NOT has_roles THEN 'roles_lost'
        WHEN granted IS NULL OR granted = 'assignee' THEN 'not_allowed'
        WHEN state = 'ANSWERED' THEN 'answered'
        WHEN state = 'EXPIRED' OR (state = 'OPEN' AND expires_at <= clock_timestamp()) THEN 'expired'
        WHEN state <> 'OPEN' THEN 'stale'
        ELSE 'taken'
    END AS outcome
    FROM asked
), assigned AS (
    UPDATE platform.questions AS q SET assignee = nullif(%(assignee)s::text, ''), assigned_by = %(subject)s
    FROM judged
    WHERE judged.outcome = 'taken' AND q.run_id = judged.run_id AND q.input_request_id = judged.input_request_id
)
SELECT outcome FROM judged
