-- Runs, their events and decisions, and the checkpoints of their graphs.
-- depends:

CREATE TABLE threads (
    subject    text        NOT NULL,
    thread_id  text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (subject, thread_id)
);

-- A run is updated with every step, in columns that no index covers: room on the page keeps those updates cheap.
CREATE TABLE runs (
    run_id            uuid PRIMARY KEY,
    agent             text        NOT NULL,
    graph_version     text        NOT NULL,
    subject           text        NOT NULL,
    roles             text[]      NOT NULL,
    thread_id         text,
    request_id        text,
    correlation_id    text        NOT NULL,
    state             text        NOT NULL CHECK (state IN ('PENDING', 'RUNNING', 'AWAITING_INPUT', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'NEEDS_REVIEW')),
    input             bytea       NOT NULL,
    output            bytea,
    stop_reason       text        NOT NULL DEFAULT '',
    error             text        NOT NULL DEFAULT '',
    input_request     jsonb,
    answer            text,
    budget            jsonb       NOT NULL,
    model_calls       integer     NOT NULL DEFAULT 0,
    tool_calls        integer     NOT NULL DEFAULT 0,
    input_tokens      bigint      NOT NULL DEFAULT 0,
    output_tokens     bigint      NOT NULL DEFAULT 0,
    wall_time_s       double precision NOT NULL DEFAULT 0,
    owner             text,
    epoch             bigint      NOT NULL DEFAULT 0,
    lease_expires_at  timestamptz,
    cancel_requested  boolean     NOT NULL DEFAULT false,
    event_count       bigint      NOT NULL DEFAULT 0,
    decision_count    bigint      NOT NULL DEFAULT 0,
    traceparent       text        NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    ended_at          timestamptz
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX runs_request ON runs (subject, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX runs_pending ON runs (created_at) WHERE state = 'PENDING';
CREATE INDEX runs_owned ON runs (owner) WHERE state = 'RUNNING';
CREATE INDEX runs_of_subject ON runs (subject, created_at DESC, run_id DESC);
CREATE INDEX runs_of_thread ON runs (subject, thread_id, created_at DESC) WHERE thread_id IS NOT NULL;
-- At most one run of a thread executes at a time, whatever replica claims it.
CREATE UNIQUE INDEX runs_active_of_thread ON runs (subject, thread_id)
    WHERE thread_id IS NOT NULL AND state IN ('RUNNING', 'AWAITING_INPUT');

CREATE TABLE run_events (
    run_id            uuid        NOT NULL REFERENCES runs ON DELETE CASCADE,
    sequence          bigint      NOT NULL,
    kind              text        NOT NULL CHECK (kind IN ('state_changed', 'node_completed', 'decision', 'run_ended')),
    decision_sequence bigint,
    payload           jsonb,
    created_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, sequence)
);

-- The decision ledger. No foreign key to runs: decisions outlive what retention removes.
CREATE TABLE decisions (
    run_id          uuid        NOT NULL,
    sequence        bigint      NOT NULL,
    decision_id     text        NOT NULL,
    agent           text        NOT NULL,
    router          text        NOT NULL,
    rule            text        NOT NULL,
    destination     text        NOT NULL,
    rejected_rules  jsonb       NOT NULL,
    grounds         jsonb       NOT NULL,
    facts           jsonb       NOT NULL,
    policy_version  text        NOT NULL,
    checkpoint_id   text        NOT NULL,
    trace_id        text        NOT NULL,
    span_id         text        NOT NULL,
    node            text        NOT NULL,
    node_elapsed_ms double precision NOT NULL,
    calls           jsonb       NOT NULL,
    decided_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, sequence)
);

CREATE INDEX decisions_by_rule ON decisions (router, rule, decided_at);

-- One row a step. `changes` holds the channel values that the step changed: for lists and maps that only grew, what was added.
CREATE TABLE checkpoints (
    thread_id            text NOT NULL,
    checkpoint_ns        text NOT NULL,
    checkpoint_id        text NOT NULL,
    parent_checkpoint_id text,
    body                 bytea NOT NULL,
    changes              bytea NOT NULL,
    metadata             jsonb NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);

CREATE TABLE checkpoint_writes (
    thread_id     text    NOT NULL,
    checkpoint_ns text    NOT NULL,
    checkpoint_id text    NOT NULL,
    task_id       text    NOT NULL,
    idx           integer NOT NULL,
    task_path     text    NOT NULL,
    writes        bytea   NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
