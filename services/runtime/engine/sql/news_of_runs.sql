-- Which of the runs have events after those that were seen, or are gone.
SELECT given.run_id::text
FROM unnest(%(run_ids)s::uuid[], %(seen)s::bigint[]) AS given (run_id, seen)
LEFT JOIN platform.runs AS r ON r.run_id = given.run_id
WHERE r.run_id IS NULL OR r.event_count > given.seen
