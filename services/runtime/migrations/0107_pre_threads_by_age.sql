-- For retention, which looks for the oldest threads without runs.
-- transactional: false
-- depends: 0106_pre_thread_metadata

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.threads_by_age;
CREATE INDEX CONCURRENTLY threads_by_age ON platform.threads (created_at);
