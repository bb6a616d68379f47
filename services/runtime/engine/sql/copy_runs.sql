-- Ended runs of one thread as runs of another: their decisions stay theirs, of their events only the end is told again.
WITH copied AS (
    INSERT INTO runs (run_id, agent, graph_version, subject, roles, thread_id, correlation_id, state, input, output,
        stop_reason, error, budget, model_calls, tool_calls, input_tokens, output_tokens, wall_time_s, epoch,
        event_count, traceparent, created_at, started_at, ended_at, pruned)
    SELECT given.target::uuid, agent, graph_version, subject, roles, %(thread_id)s, correlation_id, state, input, output,
        stop_reason, error, budget, model_calls, tool_calls, input_tokens, output_tokens, wall_time_s, epoch,
        1, traceparent, created_at, started_at, ended_at, pruned
    FROM unnest(%(sources)s::text[], %(targets)s::text[]) AS given (source, target)
    JOIN runs ON runs.run_id = given.source::uuid
    RETURNING run_id
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind) SELECT run_id, 1, 'run_ended' FROM copied
), checkpointed AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata)
    SELECT given.target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata
    FROM unnest(%(sources)s::text[], %(targets)s::text[]) AS given (source, target)
    JOIN checkpoints ON checkpoints.thread_id = given.source
)
SELECT count(*) FROM copied
