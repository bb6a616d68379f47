-- Questions that runs ask people: who may answer, what became of them, and what was answered by whom, by which right.
-- depends: 0051_pre_caller_claims

CREATE TABLE platform.questions (
    run_id           uuid        NOT NULL,
    input_request_id text        NOT NULL,
    agent            text        NOT NULL,
    subject          text        NOT NULL,
    question         text        NOT NULL,
    options          text[]      NOT NULL,
    any_text         boolean     NOT NULL,
    plan_hash        text        NOT NULL,
    detail           jsonb,
    for_caller       boolean     NOT NULL,
    roles            text[]      NOT NULL,
    assignee         text,
    assigned_by      text,
    escalated_from   text        NOT NULL,
    state            text        NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'ANSWERED', 'EXPIRED', 'WITHDRAWN')),
    asked_at         timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    answer           text,
    answered_by      text,
    answered_as      text        CHECK (answered_as IN ('caller', 'role', 'assignee')),
    answered_role    text,
    closed_at        timestamptz,
    PRIMARY KEY (run_id, input_request_id)
);
CREATE INDEX questions_open ON platform.questions (asked_at, run_id) WHERE state = 'OPEN';
CREATE INDEX questions_open_of_subject ON platform.questions (subject) WHERE state = 'OPEN';

-- The question that a run waits with, as its row says it. What an earlier release asks is for the run's own caller.
CREATE FUNCTION platform.open_question(asking platform.runs) RETURNS void LANGUAGE sql AS $$
    INSERT INTO platform.questions (run_id, input_request_id, agent, subject, question, options, any_text, plan_hash, detail,
        for_caller, roles, escalated_from, expires_at)
    SELECT asking.run_id, asked ->> 'input_request_id', asking.agent, asking.subject, asked ->> 'question',
        ARRAY(SELECT jsonb_array_elements_text(asked -> 'options')), coalesce((asked ->> 'any_text')::boolean, false),
        coalesce(asked ->> 'plan_hash', ''), asked -> 'detail', coalesce((asked ->> 'for_caller')::boolean, true),
        ARRAY(SELECT jsonb_array_elements_text(coalesce(asked -> 'roles', '[]'))), coalesce(asked ->> 'escalated_from', ''),
        (asked ->> 'expires_at')::timestamptz
    FROM (SELECT asking.input_request) AS asks (asked)
    WHERE asked ? 'input_request_id'
    -- It is asked again when a database that was restored has lost the answer.
    ON CONFLICT (run_id, input_request_id) DO UPDATE
    SET state = 'OPEN', asked_at = now(), expires_at = excluded.expires_at, answer = NULL, answered_by = NULL,
        answered_as = NULL, answered_role = NULL, closed_at = NULL
$$;

-- Whichever release pauses a run, or has it go on: a question is open while its run waits with it, and no longer.
CREATE FUNCTION platform.keep_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'AWAITING_INPUT' THEN
        PERFORM platform.open_question(NEW);
    ELSE
        UPDATE platform.questions
        SET closed_at = clock_timestamp(),
            state = CASE
                WHEN NEW.stop_reason = 'input_expired' OR (NEW.input_request ->> 'expired')::boolean THEN 'EXPIRED'
                WHEN NEW.state = 'PENDING' THEN 'ANSWERED'
                ELSE 'WITHDRAWN'
            END,
            answer = CASE WHEN NEW.state = 'PENDING' AND NOT coalesce((NEW.input_request ->> 'expired')::boolean, false)
                THEN NEW.answer END
        WHERE run_id = NEW.run_id AND state = 'OPEN';
    END IF;
    RETURN NULL;
END
$$;

-- As events, instead of a foreign key.
CREATE FUNCTION platform.forget_questions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM platform.questions WHERE run_id IN (SELECT run_id FROM gone);
    RETURN NULL;
END
$$;

-- Releases that don't know the table take an answer from the run's own caller and from operators, and end a run when its
-- question expires. What others are to answer, and what the graph is to decide, they leave alone.
CREATE FUNCTION platform.leave_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END
$$;

-- All of them within half a second, or none: nobody waits longer behind it.
SET LOCAL statement_timeout = '500ms';
LOCK TABLE platform.runs IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL statement_timeout = DEFAULT;
CREATE TRIGGER forget_questions AFTER DELETE ON platform.runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION platform.forget_questions();
CREATE TRIGGER keep_question AFTER UPDATE OF state ON platform.runs
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND 'AWAITING_INPUT' IN (OLD.state, NEW.state))
    EXECUTE FUNCTION platform.keep_question();
CREATE TRIGGER leave_question BEFORE UPDATE OF state ON platform.runs
    FOR EACH ROW WHEN (OLD.state = 'AWAITING_INPUT' AND (
        NEW.state = 'PENDING' AND NEW.input_request = OLD.input_request
            AND NOT coalesce((OLD.input_request ->> 'for_caller')::boolean, true)
        OR NEW.stop_reason = 'input_expired' AND coalesce((OLD.input_request ->> 'expires_to_graph')::boolean, false)))
    EXECUTE FUNCTION platform.leave_question();
