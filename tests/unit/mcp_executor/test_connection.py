"""What a connection makes of a server's answers: whatever an error says, a call comes to an end that is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import MCPError

from services.mcp_executor.connection import AccessRefused, Connection
from services.mcp_executor.errors import CallFailed
from services.mcp_executor.http_answers import HTTP_REFUSED, HTTP_STATUS


class Refusing:
    """A client whose server answers calls with an error."""

    def __init__(self, data: Any) -> None:
        self._data = data

    async def call_tool(self, _tool: str, _arguments: dict[str, Any]) -> None:
        raise MCPError(HTTP_REFUSED, "no", self._data)


async def refusal_of(data: Any) -> Exception:
    @asynccontextmanager
    async def client() -> AsyncIterator[Any]:
        yield Refusing(data)

    connection = Connection(client, connect_timeout_s=5)
    try:
        with pytest.raises((AccessRefused, CallFailed)) as told:
            await connection.call("look", {})
    finally:
        await connection.aclose()
    return told.value


@pytest.mark.parametrize(
    "data", [None, "x", [401], {}, {HTTP_STATUS: "401"}, {HTTP_STATUS: [401]}, {HTTP_STATUS: None}]
)
async def test_a_server_that_says_the_clients_own_code_refuses_the_call_and_no_more(data: Any) -> None:
    assert isinstance(await refusal_of(data), CallFailed)


async def test_a_status_of_http_says_that_the_token_is_not_taken() -> None:
    assert isinstance(await refusal_of({HTTP_STATUS: 401}), AccessRefused)
