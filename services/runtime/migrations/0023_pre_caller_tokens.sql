-- What each caller's runs have spent a day, counted by each replica in a row of its own: steps wait for no other's.
-- depends: 0022_pre_watches

CREATE TABLE platform.caller_tokens (
    day     date   NOT NULL,
    subject text   NOT NULL,
    owner   text   NOT NULL,
    tokens  bigint NOT NULL,
    PRIMARY KEY (day, subject, owner)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- As the one it calls, and tokens of the day besides, which is UTC's.
CREATE FUNCTION platform.broken_quota(caller text, most_at_once bigint, most_per_minute bigint, most_tokens bigint)
RETURNS TABLE (quota text, retry_after_s double precision)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    today CONSTANT timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
BEGIN
    RETURN QUERY SELECT b.quota, b.retry_after_s FROM platform.broken_quota(caller, most_at_once, most_per_minute) AS b;
    IF NOT FOUND AND most_tokens > 0 AND most_tokens <= (
        SELECT coalesce(sum(t.tokens), 0) FROM platform.caller_tokens AS t WHERE t.day = today::date AND t.subject = caller
    ) THEN
        RETURN QUERY SELECT 'tokens_per_day'::text,
            extract(epoch FROM today + interval '1 day' - now() AT TIME ZONE 'UTC')::double precision;
    END IF;
END
$$;
