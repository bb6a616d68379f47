SELECT policy_version, limits, origins FROM platform.policies WHERE policy_id = %(policy_id)s
