-- depends: 0097_pre_effects

-- Batches, and the inputs in them, of the service `batches`, which alone reads and writes these tables. Whoever has a batch's
-- lease paces it, and names its epoch in every write.
CREATE TABLE platform.batches (
    batch_id       uuid        PRIMARY KEY,
    subject        text        NOT NULL,
    roles          text[]      NOT NULL,
    claims         jsonb       NOT NULL,
    request_id     text,
    name           text        NOT NULL,
    state          text        NOT NULL DEFAULT 'UPLOADING',
    item_count     integer     NOT NULL DEFAULT 0,
    input_bytes    bigint      NOT NULL DEFAULT 0,
    max_runs       integer     NOT NULL,
    pace           integer     NOT NULL DEFAULT 0,
    held_up_by     text        NOT NULL DEFAULT '',
    ended_sequence bigint      NOT NULL DEFAULT 0,
    epoch          bigint      NOT NULL DEFAULT 0,
    lease_until    timestamptz NOT NULL DEFAULT 'epoch',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at     timestamptz,
    ended_at       timestamptz,
    expires_at     timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE UNIQUE INDEX batches_by_request ON platform.batches (subject, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX batches_of_callers ON platform.batches (subject, batch_id);
CREATE INDEX batches_under_way ON platform.batches (lease_until) WHERE state IN ('RUNNING', 'CANCELLING');
CREATE INDEX batches_expiring ON platform.batches (expires_at);

CREATE TABLE platform.batch_items (
    batch_id    uuid     NOT NULL REFERENCES platform.batches ON DELETE CASCADE,
    number      integer  NOT NULL,
    key         text     NOT NULL,
    input       bytea    NOT NULL,
    state       text     NOT NULL DEFAULT 'PENDING',
    retry_count integer  NOT NULL DEFAULT 0,
    run_id      uuid,
    run         bytea,
    error       text     NOT NULL DEFAULT '',
    ended_as    bigint,
    PRIMARY KEY (batch_id, number)
) WITH (fillfactor = 80);

CREATE INDEX batch_items_by_state ON platform.batch_items (batch_id, state, number);
CREATE INDEX batch_items_by_end ON platform.batch_items (batch_id, ended_as) WHERE ended_as IS NOT NULL;
