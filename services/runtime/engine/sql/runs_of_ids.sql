-- Those whose ids begin alike, in the order of their ids, which is nearly that of their time: for the place of the next page
-- the id alone counts.
SELECT %(before_created)s::timestamptz AS created_at, r.run_id FROM platform.runs AS r
WHERE r.run_id BETWEEN %(first_id)s::uuid AND %(last_id)s::uuid AND r.run_id < %(before_run_id)s::uuid
    AND r.created_at >= %(since)s::timestamptz AND r.created_at < %(until)s::timestamptz
ORDER BY r.run_id DESC
