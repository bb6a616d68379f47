-- Which hosted graphs the pools of runtimes offer. What one of them is, is written at its start; that it is there, again and
-- again. Who has not the code lists it and creates runs by what stands here: messages of the contract, serialized.
-- depends: 0080_pre_decided

CREATE TABLE platform.agents (
    name          text        NOT NULL,
    graph_version text        NOT NULL,
    pool          text        NOT NULL,
    listed        bytea       NOT NULL,
    outline       bytea       NOT NULL,
    offered_at    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, graph_version)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
