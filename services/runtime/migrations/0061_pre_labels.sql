-- depends: 0060_pre_run_keys

-- What callers sort runs by; the release before this one creates runs without.
ALTER TABLE platform.runs ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';

-- An entry for each label of a run, as `key=value`, in the order of lists: a page of runs with a label reads so many
-- entries, however many runs there are. Written with the run, never changed, gone with it; runs without labels cost nothing.
CREATE TABLE platform.run_labels (
    run_id     uuid        NOT NULL REFERENCES platform.runs ON DELETE CASCADE,
    label      text        NOT NULL,
    subject    text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, label)
);
CREATE INDEX run_labels_of_subject ON platform.run_labels (subject, label, created_at DESC, run_id DESC);
CREATE INDEX run_labels_by_time ON platform.run_labels (label, created_at DESC, run_id DESC);
