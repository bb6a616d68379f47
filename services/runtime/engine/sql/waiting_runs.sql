-- What pending runs wait for, and how many. What was never claimed waits for its pool, and is counted with that.
SELECT waiting_for, count(*) FROM platform.runs
WHERE state = 'PENDING' AND not_before IS NOT NULL AND epoch > 0
GROUP BY waiting_for
