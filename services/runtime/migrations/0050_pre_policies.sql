-- depends: 0043_pre_partitions

-- Policies that runs are pinned to, each written with the first run that is; `origins` names what was not built in.
CREATE TABLE platform.policies (
    policy_id      text        PRIMARY KEY,
    policy_version text        NOT NULL,
    limits         jsonb       NOT NULL,
    origins        jsonb       NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now()
);

-- From the first claim on. Null: not claimed yet, or by the release before this one, which knew only what was built in.
ALTER TABLE platform.runs ADD COLUMN policy_id text;

-- The release before this one, whose claims have no id of their own, leaves alone what is pinned to limits that somebody
-- set: it would go on with it by those that are built in.
CREATE FUNCTION platform.keep_to_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM platform.policies WHERE policy_id = OLD.policy_id AND origins <> '{}') THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER keep_to_policy BEFORE UPDATE OF state ON platform.runs
    FOR EACH ROW WHEN (OLD.state = 'PENDING' AND NEW.state = 'RUNNING' AND OLD.policy_id IS NOT NULL
        AND NEW.claim_id IS NOT DISTINCT FROM OLD.claim_id)
    EXECUTE FUNCTION platform.keep_to_policy();
