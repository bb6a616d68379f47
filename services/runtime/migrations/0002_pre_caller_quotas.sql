-- What one caller may have under way and start, counted where the runs are, so that it holds across replicas.
-- depends: 0001_pre_runs

CREATE INDEX runs_under_way_of_subject ON runs (subject) WHERE state IN ('PENDING', 'RUNNING');

-- Returns the quota that one run more would break, and when to try again; no row when there is none. 0 means no limit.
-- Near a limit the runs are counted under a lock that the transaction keeps, so that no two can take the last place.
-- Farther away than there are connections, no number of creations at the same moment could reach the limit.
CREATE FUNCTION broken_quota(caller text, most_at_once bigint, most_per_minute bigint)
RETURNS TABLE (quota text, retry_after_s double precision)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    connections CONSTANT bigint := current_setting('max_connections')::bigint;
    under_way bigint;
    started bigint;
    alone boolean;
BEGIN
    FOREACH alone IN ARRAY ARRAY[false, true] LOOP
        IF alone THEN
            PERFORM pg_advisory_xact_lock(hashtextextended(caller, 1));
        END IF;
        SELECT count(*) INTO under_way FROM (
            SELECT FROM runs WHERE subject = caller AND state IN ('PENDING', 'RUNNING') LIMIT most_at_once
        ) AS counted;
        SELECT count(*) INTO started FROM (
            SELECT FROM runs WHERE subject = caller AND created_at > now() - interval '1 minute' LIMIT most_per_minute
        ) AS counted;
        EXIT WHEN (most_at_once = 0 OR under_way + connections < most_at_once)
            AND (most_per_minute = 0 OR started + connections < most_per_minute);
    END LOOP;
    IF most_at_once > 0 AND under_way >= most_at_once THEN
        RETURN QUERY SELECT 'at_once'::text, 1.0::double precision;
    ELSIF most_per_minute > 0 AND started >= most_per_minute THEN
        RETURN QUERY
        SELECT 'per_minute'::text, greatest(extract(epoch FROM min(created_at) + interval '1 minute' - now()), 0.1)::double precision
        FROM (
            SELECT created_at FROM runs WHERE subject = caller ORDER BY created_at DESC LIMIT most_per_minute
        ) AS newest;
    END IF;
END
$$;
