WITH doomed AS (
    SELECT run_id FROM platform.runs WHERE subject = %(subject)s AND thread_id = %(thread_id)s
), blanked AS (
    UPDATE platform.decisions SET facts = '{}', grounds = '{}', rejected_rules = '[]', calls = '[]'
    WHERE run_id IN (SELECT run_id FROM doomed)
    RETURNING 1
), gone_checkpoints AS (
    DELETE FROM platform.checkpoints WHERE thread_id IN (SELECT run_id::text FROM doomed)
), gone_writes AS (
    DELETE FROM platform.checkpoint_writes WHERE thread_id IN (SELECT run_id::text FROM doomed)
), gone_runs AS (
    DELETE FROM platform.runs WHERE run_id IN (SELECT run_id FROM doomed) RETURNING 1
), gone_items AS (
    DELETE FROM platform.store WHERE scope = 'thread' AND owner = %(subject)s AND thread_id = %(thread_id)s
), gone_thread AS (
    DELETE FROM platform.threads WHERE subject = %(subject)s AND thread_id = %(thread_id)s
)
SELECT (SELECT count(*) FROM gone_runs), (SELECT count(*) FROM blanked)
