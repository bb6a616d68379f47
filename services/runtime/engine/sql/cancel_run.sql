-- A run that no replica executes ends here and now; whoever executes one is told to stop it, unless the server's queue of
-- news fills. One that is rolled back is so from here on, however it ends.
WITH found AS (
    SELECT run_id, state, owner FROM platform.runs WHERE run_id = %(run_id)s FOR UPDATE
), changed AS (
    UPDATE platform.runs
    SET cancel_requested = true,
        rolled_back_by = coalesce(rolled_back_by, %(rolled_back_by)s::uuid),
        state = CASE WHEN found.state = 'RUNNING' THEN 'RUNNING' ELSE 'CANCELLED' END,
        stop_reason = CASE WHEN found.state = 'RUNNING' THEN stop_reason ELSE 'cancelled' END,
        outcome = CASE WHEN found.state = 'RUNNING' THEN outcome ELSE 'cancelled' END,
        ended_at = CASE WHEN found.state = 'RUNNING' THEN ended_at ELSE now() END,
        event_count = event_count + CASE WHEN found.state = 'RUNNING' THEN 0 ELSE 1 END
    FROM found
    WHERE runs.run_id = found.run_id AND found.state IN ('PENDING', 'RUNNING', 'AWAITING_INPUT')
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind)
    SELECT run_id, event_count, 'run_ended' FROM changed WHERE state = 'CANCELLED'
)
SELECT {changed.*}, CASE WHEN changed.state = 'RUNNING' AND pg_notification_queue_usage() < 0.25
    THEN pg_notify('signalbox:' || right(found.owner, 48), 'cancel:' || found.run_id)::text END AS told
FROM changed JOIN found ON true
