-- Events and decisions become partitioned by run id, a week each. What there is becomes the first partition, up to a
-- Monday that is far enough away for this and the next migrations to have gone through.
-- depends: 0007_pre_schema

-- The least run id of a moment: run ids are UUIDs of version 7, which begin with the time.
CREATE FUNCTION platform.first_run_id(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

DO $$
DECLARE
    bound CONSTANT uuid := platform.first_run_id((date_trunc('week', now() AT TIME ZONE 'UTC') + interval '2 weeks') AT TIME ZONE 'UTC');
BEGIN
    EXECUTE format('ALTER TABLE platform.run_events ADD CONSTRAINT before_partitions CHECK (run_id < %L) NOT VALID', bound);
    EXECUTE format('ALTER TABLE platform.decisions ADD CONSTRAINT before_partitions CHECK (run_id < %L) NOT VALID', bound);
END
$$;
