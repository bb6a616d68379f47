-- depends: 0042_pre_indexes

-- All of them within half a second, or none: nobody waits longer behind it. In the order in which statements take them.
SET LOCAL statement_timeout = '500ms';
LOCK TABLE platform.runs, platform.run_events, platform.decisions IN ACCESS EXCLUSIVE MODE;
SET LOCAL statement_timeout = DEFAULT;

ALTER TABLE platform.run_events DROP CONSTRAINT run_events_run_id_fkey;
ALTER TABLE platform.run_events RENAME TO run_events_first;
ALTER TABLE platform.run_events_first RENAME CONSTRAINT run_events_pkey TO run_events_first_pkey;
ALTER TABLE platform.decisions RENAME TO decisions_first;
ALTER TABLE platform.decisions_first RENAME CONSTRAINT decisions_pkey TO decisions_first_pkey;
ALTER INDEX platform.decisions_by_rule RENAME TO decisions_first_by_rule;
ALTER INDEX platform.decisions_of_router RENAME TO decisions_first_of_router;

CREATE TABLE platform.run_events (LIKE platform.run_events_first INCLUDING DEFAULTS) PARTITION BY RANGE (run_id);
ALTER TABLE platform.run_events ADD PRIMARY KEY (run_id, sequence);
ALTER TABLE platform.run_events ADD CONSTRAINT run_events_kind_check
    CHECK (kind IN ('state_changed', 'node_completed', 'decision', 'run_ended'));
CREATE TABLE platform.decisions (LIKE platform.decisions_first INCLUDING DEFAULTS) PARTITION BY RANGE (run_id);
ALTER TABLE platform.decisions ADD PRIMARY KEY (run_id, sequence);
CREATE INDEX decisions_by_rule ON platform.decisions (router, rule, decided_at);
CREATE INDEX decisions_of_router ON platform.decisions (router, run_id, sequence);

-- Takes what has an index and a valid constraint of its own as it is, without reading it.
DO $$
DECLARE
    name text;
    bound text;
BEGIN
    FOREACH name IN ARRAY ARRAY['run_events', 'decisions'] LOOP
        SELECT substring(pg_get_constraintdef(oid) FROM '[0-9a-f]{8}-[0-9a-f-]{27}') INTO STRICT bound FROM pg_constraint
        WHERE conname = 'before_partitions' AND conrelid = format('platform.%I', name || '_first')::regclass;
        EXECUTE format('ALTER TABLE platform.%I ATTACH PARTITION platform.%I FOR VALUES FROM (MINVALUE) TO (%L)',
            name, name || '_first', bound);
        EXECUTE format('CREATE TABLE platform.%I PARTITION OF platform.%I DEFAULT', name || '_other', name);
        EXECUTE format('ALTER TABLE platform.%I DROP CONSTRAINT before_partitions', name || '_first');
    END LOOP;
END
$$;

CREATE OR REPLACE VIEW public.run_events AS SELECT * FROM platform.run_events;
CREATE OR REPLACE VIEW public.decisions AS SELECT * FROM platform.decisions;

-- Instead of a foreign key, which would cost every event a look at its run.
CREATE FUNCTION platform.forget_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM platform.run_events WHERE run_id IN (SELECT run_id FROM gone);
    RETURN NULL;
END
$$;
CREATE TRIGGER forget_events AFTER DELETE ON platform.runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION platform.forget_events();
