-- Which limits replicas have in force for new runs of each agent, and what changed when. One of an agent's is recorded: the
-- one that its last change led to. Replicas say again and again that they have theirs; what nobody has is seen no more.
-- depends: 0100_pre_batches

CREATE TABLE platform.limits_in_force (
    agent         text        NOT NULL,
    limits_digest text        NOT NULL,
    limits        jsonb       NOT NULL,
    is_recorded   boolean     NOT NULL DEFAULT false,
    seen_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, limits_digest)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE UNIQUE INDEX recorded_limits ON platform.limits_in_force (agent) WHERE is_recorded;

CREATE TABLE platform.limit_changes (
    change_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent          text        NOT NULL,
    changed_at     timestamptz NOT NULL DEFAULT now(),
    limits         jsonb       NOT NULL,
    policy_version text        NOT NULL,
    graph_version  text        NOT NULL,
    release        text        NOT NULL,
    revision       bigint      NOT NULL,
    changed_by     text        NOT NULL,
    reason         text        NOT NULL
);
CREATE INDEX limit_changes_of_agent ON platform.limit_changes (agent, change_id DESC);
