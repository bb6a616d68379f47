-- A lease is a replica's, not each of its runs': what a replica renews is one row. Those of runs are still written, for
-- the release before this one, which goes by them.
-- depends: 0007_pre_schema

CREATE TABLE platform.replicas (
    owner            text        PRIMARY KEY,
    lease_expires_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Every claim and every end is an update that no page has room for; what they leave is to go before the indexes on
-- what is pending are full of it, however large the table has become.
ALTER TABLE platform.runs SET (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

-- 1: its claims ended with the death of their replicas, again and again; 2: so it was run alone; 3: and that ended with the
-- death of its replica too. A step clears it.
ALTER TABLE platform.runs ADD COLUMN suspicion smallint NOT NULL DEFAULT 0;
-- When the question that a run asks is too old to be answered.
ALTER TABLE platform.runs ADD COLUMN expires_at timestamptz;

-- The release before this one writes questions too, and knows nothing of the column.
CREATE FUNCTION platform.note_expiry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := (NEW.input_request ->> 'expires_at')::timestamptz;
    RETURN NEW;
END
$$;
CREATE TRIGGER note_expiry BEFORE UPDATE OF input_request ON platform.runs
    FOR EACH ROW WHEN (NEW.state = 'AWAITING_INPUT') EXECUTE FUNCTION platform.note_expiry();
