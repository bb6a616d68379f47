-- depends: 0096_pre_retryable

-- Effects of hosted graphs' own functions: that one has begun, written before it, and its result, written after it.
CREATE TABLE platform.effects (
    run_id      uuid        NOT NULL REFERENCES platform.runs ON DELETE CASCADE,
    operation   text        NOT NULL,
    name        text        NOT NULL,
    epoch       bigint      NOT NULL,
    began_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    result_type text,
    result      bytea,
    PRIMARY KEY (run_id, operation)
);
