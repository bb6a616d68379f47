-- A replica that listens and does not read must not fill the server's queue.
SELECT pg_notify(%(channel)s, %(agent)s) WHERE pg_notification_queue_usage() < 0.25
