-- depends: 0070_pre_outcomes

-- How a decision was made that no table made. Null is a table's; what is there needs no value, and is not rewritten.
SET LOCAL statement_timeout = '500ms';
ALTER TABLE platform.decisions ADD COLUMN decided jsonb;
SET LOCAL statement_timeout = DEFAULT;
