-- depends: 0061_pre_labels

-- Releases that screen no answers take only options of a question whose answers are to be screened. What they leave alone
-- they tell the caller is stale; a replica that screens it takes it.
SET LOCAL statement_timeout = '500ms';
LOCK TABLE platform.runs IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL statement_timeout = DEFAULT;
CREATE TRIGGER leave_unscreened BEFORE UPDATE OF state ON platform.runs
    FOR EACH ROW WHEN (OLD.state = 'AWAITING_INPUT' AND NEW.state = 'PENDING' AND NEW.input_request = OLD.input_request
        AND coalesce((OLD.input_request ->> 'screened')::boolean, false)
        AND NOT coalesce(OLD.input_request -> 'options' ? NEW.answer, false))
    EXECUTE FUNCTION platform.leave_question();
