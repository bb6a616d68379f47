SELECT policy_version, limits FROM platform.policies
