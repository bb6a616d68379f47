-- Ended runs of one thread as runs of another: their decisions stay theirs, of their events only the end is told again.
WITH copied AS (
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, claims, thread_id, correlation_id, state, input,
        output, outcome, stop_reason, retryable, error, budget, model_calls, tool_calls, input_tokens, output_tokens, wall_time_s,
        epoch, event_count, traceparent, created_at, started_at, ended_at, pruned, policy_id, labels, title, forked_from)
    SELECT given.target::uuid, agent, graph_version, subject, roles, claims, %(thread_id)s, correlation_id, state, input, output,
        outcome, stop_reason, retryable, error, budget, model_calls, tool_calls, input_tokens, output_tokens, wall_time_s, epoch,
        1, traceparent, created_at, started_at, ended_at, pruned, policy_id, labels, title, forked_from
    FROM unnest(%(sources)s::text[], %(targets)s::text[]) AS given (source, target)
    JOIN platform.runs ON runs.run_id = given.source::uuid
    RETURNING run_id, subject, created_at, labels, title
), labelled AS (
    INSERT INTO platform.run_labels (run_id, label, subject, created_at)
    SELECT run_id, l.key || '=' || l.value, subject, created_at FROM copied, jsonb_each_text(labels) AS l
), found_by AS (
    INSERT INTO platform.run_words (run_id, words)
    SELECT r.run_id, array_to_tsvector({words_of_run.sql}) FROM copied AS r WHERE r.title <> '' OR r.labels <> '{}'
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind) SELECT run_id, 1, 'run_ended' FROM copied
), checkpointed AS (
    INSERT INTO platform.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes,
        metadata, ordinal)
    SELECT given.target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata, ordinal
    FROM unnest(%(sources)s::text[], %(targets)s::text[]) AS given (source, target)
    JOIN platform.checkpoints ON checkpoints.thread_id = given.source
), written AS (
    INSERT INTO platform.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
    SELECT given.target, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes
    FROM unnest(%(sources)s::text[], %(targets)s::text[]) AS given (source, target)
    JOIN platform.checkpoint_writes ON checkpoint_writes.thread_id = given.source
)
SELECT count(*) FROM copied
