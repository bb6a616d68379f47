-- Threads in the order in which they are listed.
-- depends: 0003_pre_retention

CREATE INDEX threads_of_subject ON threads (subject, created_at DESC, thread_id DESC);
