SELECT thread_id, checkpoint_ns, checkpoint_id
FROM platform.checkpoints WHERE metadata ->> 'run_id' = ANY (%(run_ids)s)
