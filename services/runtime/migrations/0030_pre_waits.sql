-- What models were paid for, and what was waited for, in attempts at a node that waits for something that is away. The
-- node's step takes it over.
-- depends: 0007_pre_schema

ALTER TABLE platform.runs ADD COLUMN attempts jsonb NOT NULL DEFAULT '[]';
