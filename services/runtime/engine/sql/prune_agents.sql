-- Of those that have not been seen for long, the ones that no run waits for.
DELETE FROM platform.agents AS a
WHERE a.seen_at < now() - make_interval(secs => %(kept_s)s) AND NOT {has_unfinished_runs.sql}
