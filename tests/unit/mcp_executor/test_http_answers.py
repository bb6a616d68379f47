"""What is asked of MCP servers over HTTP, and what is not."""

from __future__ import annotations

import httpx2

from services.mcp_executor.http_answers import McpTransport


async def test_what_a_server_says_unasked_is_not_listened_to() -> None:
    transport = McpTransport(1000)
    # No socket is opened for it, which would fail here.
    answer = await transport.handle_async_request(httpx2.Request("GET", "https://tickets.example.com/mcp"))
    assert answer.status_code == 405
    await transport.aclose()
