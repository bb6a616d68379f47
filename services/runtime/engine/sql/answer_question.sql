-- Takes an answer, or says why not; whoever comes second waits for the row and finds what the first made of it. The
-- question stays on the run's row until the graph has taken the answer, so that a crash in between repeats neither. Who
-- answered is an event, and a call record that the step of the node that asked takes over into the ledger, as the calls of
-- its screening. Words of somebody's own are taken once they are screened; an option is the run's own words. Answers to
-- interrupts are taken once it has been checked that they fit.
WITH asked AS MATERIALIZED (
    SELECT q.run_id, q.input_request_id, q.agent, q.state, r.traceparent, q.options, q.any_text, q.plan_hash, q.answer, q.answered_by,
        q.subject = %(subject)s AS own, r.roles <@ %(roles)s::text[] AS has_roles, r.state AS run_state, r.expires_at,
        r.input_request ->> 'input_request_id' AS asked_now, (r.input_request ->> 'screened')::boolean AS screened,
        q.detail -> 'interrupts' AS interrupts,
        {answer_right.sql} AS granted, {answer_role.sql} AS role
    FROM platform.runs AS r JOIN platform.questions AS q USING (run_id)
    WHERE q.run_id = %(run_id)s AND q.input_request_id = %(input_request_id)s
    FOR UPDATE OF r, q
), judged AS MATERIALIZED (
    SELECT run_id, input_request_id, agent, traceparent, options, plan_hash, interrupts, granted, role, CASE
        WHEN granted IS NULL AND NOT own THEN 'not_found'
        WHEN granted IS NULL AND NOT has_roles THEN 'roles_lost'
        WHEN granted IS NULL THEN 'not_allowed'
        WHEN state = 'ANSWERED' AND answered_by = %(subject)s AND answer = %(answer)s THEN 'repeated'
        WHEN state = 'ANSWERED' THEN 'answered'
        WHEN state = 'EXPIRED' OR (state = 'OPEN' AND expires_at <= clock_timestamp()) THEN 'expired'
        WHEN state <> 'OPEN' OR run_state <> 'AWAITING_INPUT' OR asked_now <> input_request_id THEN 'stale'
        WHEN plan_hash <> coalesce(%(plan_hash)s::text, plan_hash) THEN 'plan_moved'
        WHEN interrupts IS NULL AND %(by_id)s THEN 'not_by_id'
        WHEN interrupts IS NOT NULL AND NOT %(fits)s THEN 'unchecked'
        WHEN NOT any_text AND options <> '{}' AND %(answer)s <> ALL (options) THEN 'unfitting'
        WHEN screened AND %(answer)s <> ALL (options) AND %(screening)s::jsonb IS NULL THEN 'unscreened'
        ELSE 'taken'
    END AS outcome
    FROM asked
), taken AS (
    UPDATE platform.questions AS q
    SET state = 'ANSWERED', answer = %(answer)s, answered_by = %(subject)s, answered_as = judged.granted,
        answered_role = CASE WHEN judged.granted = 'role' THEN judged.role END, closed_at = clock_timestamp()
    FROM judged
    WHERE judged.outcome = 'taken' AND q.run_id = judged.run_id AND q.input_request_id = judged.input_request_id
), answered AS (
    UPDATE platform.runs AS r
    SET state = 'PENDING', answer = %(answer)s, event_count = r.event_count + 1,
        input_request = r.input_request || jsonb_build_object('answered_as', judged.granted, 'by_id', %(by_id)s::boolean),
        attempts = r.attempts || coalesce(%(screening)s::jsonb, '[]') || jsonb_build_object('kind', 'person', 'name', %(subject)s::text, 'outcome',
            CASE WHEN judged.granted = 'role' THEN 'role ' || judged.role ELSE judged.granted END,
            'elapsed_ms', 0, 'input_tokens', 0, 'output_tokens', 0)
    FROM judged
    WHERE judged.outcome = 'taken' AND r.run_id = judged.run_id
    RETURNING r.run_id, r.event_count
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT answered.run_id, answered.event_count, 'state_changed', jsonb_build_object('state', 'PENDING', 'input_received',
        jsonb_build_object('input_request_id', judged.input_request_id, 'subject', %(subject)s::text, 'right',
            judged.granted, 'role', CASE WHEN judged.granted = 'role' THEN judged.role END))
    FROM answered CROSS JOIN judged
)
SELECT outcome, agent, traceparent, granted, options, plan_hash, interrupts FROM judged
