-- What hosted graphs keep beyond a run: LangGraph's store. `owner` is a caller's subject, or an agent's name; `namespace` is
-- its labels, joined with points, which none of them holds; `subject` is the caller whose run wrote last.
-- depends: 0080_pre_decided

CREATE TABLE platform.store (
    scope      text        NOT NULL CHECK (scope IN ('caller', 'thread', 'agent')),
    owner      text        NOT NULL,
    thread_id  text        NOT NULL,
    namespace  text        NOT NULL,
    key        text        NOT NULL,
    value      bytea       NOT NULL,
    subject    text        NOT NULL,
    ttl_s      double precision,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (scope, owner, thread_id, namespace, key)
);
CREATE INDEX store_expired ON platform.store (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX store_of_subject ON platform.store (subject);
