-- Whether the run `r` may be claimed, by what it is. A thread's runs go one after another, in the order they were created.
-- What this replica has no graph for, or was begun on another and can't be carried on by this one, waits for one that can:
-- while releases change places, not all are the same.
r.state = 'PENDING' AND coalesce(r.not_before, r.created_at) <= now()
    AND (r.epoch = 0 AND %(graphs)s::jsonb ? r.agent OR r.graph_version = %(graphs)s::jsonb ->> r.agent
        OR (%(carried)s::jsonb ->> r.run_id::text)::bigint = r.epoch)
    AND (r.thread_id IS NULL OR NOT EXISTS (
            SELECT 1 FROM platform.runs AS active
            WHERE active.subject = r.subject AND active.thread_id = r.thread_id AND active.thread_id IS NOT NULL
                AND active.state IN ('RUNNING', 'AWAITING_INPUT')
        ) AND NOT EXISTS (
            SELECT 1 FROM platform.runs AS earlier
            WHERE earlier.subject = r.subject AND earlier.thread_id = r.thread_id AND earlier.thread_id IS NOT NULL
                AND earlier.state = 'PENDING' AND (earlier.created_at, earlier.run_id) < (r.created_at, r.run_id)))
