"""Starts the MCP executor."""

if __name__ == "__main__":  # processes that hold results against schemas run this file too, and want none of it
    from services.kit.wire.server import main
    from services.mcp_executor.server import build
    from services.mcp_executor.settings import McpExecutorSettings

    main("mcp_executor", McpExecutorSettings, build)
