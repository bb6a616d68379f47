-- depends: 0050_pre_policies

-- What callers name runs by, where an agent has one run for each name; whoever creates one holds its row. The key goes with
-- its run.
CREATE TABLE platform.run_keys (
    subject text NOT NULL,
    agent   text NOT NULL,
    name    text NOT NULL,
    run_id  uuid REFERENCES platform.runs ON DELETE CASCADE,
    digest  text NOT NULL DEFAULT '',
    PRIMARY KEY (subject, agent, name)
);
CREATE INDEX run_keys_of_run ON platform.run_keys (run_id);
