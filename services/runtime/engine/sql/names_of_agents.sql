SELECT DISTINCT name FROM platform.agents
