-- What claims and sweeps look for, and nothing else: however many runs wait, they read those that are due.
-- transactional: false
-- depends: 0020_pre_replicas

-- Each is dropped first: one that was interrupted stays behind, invalid.
-- Callers take turns, and each caller's runs go in the order in which they may begin.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_turns;
CREATE INDEX CONCURRENTLY runs_turns ON platform.runs (subject, (coalesce(not_before, created_at)), run_id)
    WHERE state = 'PENDING';
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_pending_of_thread;
CREATE INDEX CONCURRENTLY runs_pending_of_thread ON platform.runs (subject, thread_id, created_at, run_id)
    WHERE state = 'PENDING' AND thread_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_suspect;
CREATE INDEX CONCURRENTLY runs_suspect ON platform.runs (created_at) WHERE state = 'PENDING' AND suspicion > 0;
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_waiting;
CREATE INDEX CONCURRENTLY runs_waiting ON platform.runs (waiting_for) WHERE state = 'PENDING' AND not_before IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_expiring;
CREATE INDEX CONCURRENTLY runs_expiring ON platform.runs (expires_at) WHERE state = 'AWAITING_INPUT';
