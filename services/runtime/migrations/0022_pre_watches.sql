-- Which replicas have callers who watch a run that executes elsewhere, or not yet. Nothing is lost with it: watchers ask
-- now and then, and register again.
-- depends: 0021_pre_turns

CREATE UNLOGGED TABLE platform.watches (
    run_id uuid NOT NULL,
    owner  text NOT NULL,
    PRIMARY KEY (run_id, owner)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX watches_of_owner ON platform.watches (owner);

-- Every statement that writes an event, of this release or the one before it, counts it in the run's row. A commit that
-- notifies waits for every other that does, so that only what is watched elsewhere is told of. A replica that listens and
-- does not read must not fill the server's queue, since then nothing that notifies could commit.
CREATE FUNCTION platform.tell_watchers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('signalbox:' || right(w.owner, 48), NEW.run_id::text)
    FROM platform.watches AS w
    WHERE w.run_id = NEW.run_id AND pg_notification_queue_usage() < 0.25;
    RETURN NULL;
END
$$;
CREATE TRIGGER tell_watchers AFTER UPDATE OF event_count ON platform.runs
    FOR EACH ROW WHEN (NEW.event_count > OLD.event_count) EXECUTE FUNCTION platform.tell_watchers();
