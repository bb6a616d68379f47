-- Questions that wait for an answer, by agent, and how long the oldest has, in seconds: asking is a run's latest event.
SELECT r.agent, count(*), coalesce(extract(epoch FROM now() - min(asked.created_at)), 0)::float8
FROM platform.runs AS r LEFT JOIN platform.run_events AS asked
    ON asked.run_id = r.run_id AND asked.sequence = r.event_count
WHERE r.state = 'AWAITING_INPUT'
GROUP BY r.agent
