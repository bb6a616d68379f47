-- The tables move into a schema of their own; views under the old names, with the columns that were, stay for the release
-- before this one. It says `*` in prepared statements, which fail for good when a table gets a column (docs/adr/0018).
-- depends: 0006_pre_questions

-- All of them within half a second, or none: nobody waits longer behind it. In the order in which statements take them:
-- in another, one that never stops coming would hold the second and wait for the first, time and again.
SET LOCAL statement_timeout = '500ms';
LOCK TABLE public.threads, public.runs, public.run_events, public.decisions, public.checkpoints, public.checkpoint_writes
    IN ACCESS EXCLUSIVE MODE;
SET LOCAL statement_timeout = DEFAULT;

CREATE SCHEMA platform;
ALTER TABLE public.threads SET SCHEMA platform;
ALTER TABLE public.runs SET SCHEMA platform;
ALTER TABLE public.run_events SET SCHEMA platform;
ALTER TABLE public.decisions SET SCHEMA platform;
ALTER TABLE public.checkpoints SET SCHEMA platform;
ALTER TABLE public.checkpoint_writes SET SCHEMA platform;

CREATE VIEW public.threads AS SELECT * FROM platform.threads;
CREATE VIEW public.runs AS SELECT * FROM platform.runs;
CREATE VIEW public.run_events AS SELECT * FROM platform.run_events;
CREATE VIEW public.decisions AS SELECT * FROM platform.decisions;
CREATE VIEW public.checkpoints AS SELECT * FROM platform.checkpoints;
CREATE VIEW public.checkpoint_writes AS SELECT * FROM platform.checkpoint_writes;

-- A failover that loses commits may give an epoch twice, but no claim its id.
ALTER TABLE platform.runs ADD COLUMN claim_id uuid;
-- A pending run that waits for something that is away, and the time before which nobody need try again.
ALTER TABLE platform.runs ADD COLUMN not_before timestamptz;
ALTER TABLE platform.runs ADD COLUMN waiting_for text NOT NULL DEFAULT '';

-- The order of a run's checkpoints. Their ids are made by replicas' clocks, which differ; what was written before has 0,
-- and stays in the order of its ids.
CREATE SEQUENCE platform.checkpoint_ordinal;
ALTER TABLE platform.checkpoints ADD COLUMN ordinal bigint NOT NULL DEFAULT 0;
ALTER TABLE platform.checkpoints ALTER COLUMN ordinal SET DEFAULT nextval('platform.checkpoint_ordinal');
ALTER SEQUENCE platform.checkpoint_ordinal OWNED BY platform.checkpoints.ordinal;

-- As public.broken_quota, which the release before calls.
CREATE FUNCTION platform.broken_quota(caller text, most_at_once bigint, most_per_minute bigint)
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
            SELECT FROM platform.runs WHERE subject = caller AND state IN ('PENDING', 'RUNNING') LIMIT most_at_once
        ) AS counted;
        SELECT count(*) INTO started FROM (
            SELECT FROM platform.runs
            WHERE subject = caller AND created_at > now() - interval '1 minute' LIMIT most_per_minute
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
            SELECT created_at FROM platform.runs WHERE subject = caller ORDER BY created_at DESC LIMIT most_per_minute
        ) AS newest;
    END IF;
END
$$;
