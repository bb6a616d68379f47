-- depends: 0061_pre_labels

-- What nodes heard, of runs that are to be recorded: written with the step that follows from it, gone with the run. The
-- release before this one creates runs without, and records nothing of what it executes.
ALTER TABLE platform.runs ADD COLUMN recorded boolean NOT NULL DEFAULT false;
CREATE TABLE platform.recorded_answers (
    run_id   uuid   NOT NULL REFERENCES platform.runs ON DELETE CASCADE,
    sequence bigint NOT NULL,
    answer   bytea  NOT NULL,
    PRIMARY KEY (run_id, sequence)
);
