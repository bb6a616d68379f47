-- With what more rights brought, nobody is shown who has lost them since.
SELECT input, output, traceparent FROM platform.runs
WHERE subject = %(subject)s AND thread_id = %(thread_id)s AND state IN ('SUCCEEDED', 'NEEDS_REVIEW')
    AND output IS NOT NULL AND rolled_back_by IS NULL AND roles <@ %(roles)s::text[] AND created_at < %(before)s
ORDER BY created_at DESC
LIMIT %(limit)s
