-- What is a caller's own, in whatever thread, and what a run of the caller's wrote last of what agents keep for everybody.
WITH gone AS (
    DELETE FROM platform.store WHERE scope IN ('caller', 'thread') AND owner = %(subject)s OR subject = %(subject)s RETURNING 1
)
SELECT count(*) FROM gone
