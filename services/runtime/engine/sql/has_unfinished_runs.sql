-- Whether the agent `a` has runs that have not ended.
(EXISTS (SELECT FROM platform.runs WHERE state = 'PENDING' AND agent = a.name)
    OR EXISTS (SELECT FROM platform.runs WHERE state = 'RUNNING' AND agent = a.name)
    OR EXISTS (SELECT FROM platform.runs WHERE state = 'AWAITING_INPUT' AND agent = a.name))
