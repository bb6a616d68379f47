-- depends: 0053_pre_open_questions

-- As the one it calls, and runs that wait for people besides. Those are in nobody's way, so they have a quota of their own.
CREATE FUNCTION platform.broken_quota(
    caller text, most_at_once bigint, most_per_minute bigint, most_tokens bigint, most_waiting bigint
)
RETURNS TABLE (quota text, retry_after_s double precision)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT b.quota, b.retry_after_s
    FROM platform.broken_quota(caller, most_at_once, most_per_minute, most_tokens) AS b;
    IF NOT FOUND AND most_waiting > 0 AND most_waiting <= (
        SELECT count(*) FROM (
            SELECT FROM platform.questions AS q WHERE q.subject = caller AND q.state = 'OPEN' LIMIT most_waiting
        ) AS counted
    ) THEN
        -- Nobody knows when somebody answers.
        RETURN QUERY SELECT 'waiting'::text, 60.0::double precision;
    END IF;
END
$$;
