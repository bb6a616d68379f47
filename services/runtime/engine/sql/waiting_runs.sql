-- What pending runs wait for, and how many.
SELECT waiting_for, count(*) FROM platform.runs
WHERE state = 'PENDING' AND not_before IS NOT NULL
GROUP BY waiting_for
