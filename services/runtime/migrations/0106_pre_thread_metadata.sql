-- depends: 0100_pre_batches

-- What callers keep with their threads. One that has any is there without runs, too, until retention comes round.
ALTER TABLE platform.threads ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}';
