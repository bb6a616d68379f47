"""Tools of MCP servers, for agents: those that somebody has accepted, as they were when that was done."""

COMMANDS = {"accept": "services.mcp_executor.accept"}
