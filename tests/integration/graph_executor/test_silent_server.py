"""A graph database whose host takes connections and answers nothing: an outage, told in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.graph_executor.errors import GraphAway
from services.graph_executor.falkor import Falkor

CONNECTIONS = 2
GIVEN_UP_S = 60.0


@pytest.fixture
async def falkor() -> AsyncIterator[Falkor]:
    """Queries to a host that swallows what it is sent, over few connections."""

    async def swallow(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    made = Falkor(f"redis://{address}", ca=None, connections=CONNECTIONS, wait_s=0.5, timeout_ms=200)
    yield made
    await made.aclose()
    server.close()


async def test_every_call_ends_as_an_outage(falkor: Falkor) -> None:
    async with asyncio.timeout(GIVEN_UP_S):
        for call in (
            falkor.read_for_caller("g", "MATCH (n) RETURN n", {}),
            falkor.read("g", "MATCH (n) RETURN n", {}),
            falkor.query("g", "CREATE (n)", {}),
            falkor.command("PING"),
        ):
            with pytest.raises(GraphAway):
                await call


async def test_who_finds_no_connection_does_not_wait_for_those_who_have_one(falkor: Falkor) -> None:
    async with asyncio.timeout(GIVEN_UP_S):
        holding = [asyncio.create_task(falkor.command("PING")) for _ in range(CONNECTIONS)]
        await asyncio.sleep(0)
        with pytest.raises(GraphAway):
            await falkor.command("PING")
        assert not any(task.done() for task in holding)
        assert all(isinstance(each, GraphAway) for each in await asyncio.gather(*holding, return_exceptions=True))
