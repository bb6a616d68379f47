"""The agents: each a graph with its routers, policy and prompts."""
