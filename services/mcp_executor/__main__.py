"""Starts the MCP executor."""

from services.kit.wire.server import main
from services.mcp_executor.server import build
from services.mcp_executor.settings import McpExecutorSettings

if __name__ == "__main__":
    main("mcp_executor", McpExecutorSettings, build)
