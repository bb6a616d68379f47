"""A query that FalkorDB can't stop: its caller is told, and the server is ended, comes back, and has lost nothing."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from services.graph_executor.falkor import Falkor
from services.graph_executor.falkor_store import FalkorStore
from services.graph_executor.policy import GraphPolicy
from services.kit.identity.keys import generate_keypair
from services.kit.tools.executor import ToolRefused
from services.local.falkordb import FalkorServer
from services.local.supervision import keep_running
from tests.integration.graph_executor.conftest import POLICY, Answer, Executor, serving

# What the executor refuses to send: a list that is searched for each of its values, which nothing stops.
RUNAWAY = (
    "UNWIND range(1,10000) AS i UNWIND range(1,100) AS j WITH collect(i*1000+j) AS r "
    "RETURN size([x IN r WHERE NOT (-x-1) IN r])"
)


@pytest.fixture
def back() -> asyncio.Event:
    """Set once the server is there again."""
    return asyncio.Event()


@pytest.fixture
async def server(back: asyncio.Event) -> AsyncIterator[FalkorServer]:
    """A server that is started again when it ends, which is told by `back`."""
    with tempfile.TemporaryDirectory(prefix="graph-") as directory:
        started = FalkorServer(Path(directory), silent_s=7)
        await started.start()

        def say(told: str) -> None:
            if told.endswith("is back"):
                back.set()

        keeper = asyncio.create_task(keep_running(started, say, pauses_s=(0.0,)))
        try:
            yield started
        finally:
            keeper.cancel()
            await started.stop()


async def asked(executor: Executor, tool: str, **arguments: Any) -> Answer:
    """Calls a tool, with the same key until the database is there."""
    while True:
        try:
            return await executor.call(tool, **arguments, operation=json.dumps(arguments))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(0.05)


async def writes(executor: Executor, ended: asyncio.Event) -> list[str]:
    """Adds one node after another until told to end; the keys of those that it was told are there."""
    known: list[str] = []
    while not ended.is_set():
        key = f"T-{len(known)}"
        answer = await asked(executor, "add_node", label="Ticket", key=key)
        assert answer.data["result"] in ("created", "matched"), answer
        known.append(key)
    return known


async def test_a_query_that_runs_on_is_told_so_and_the_server_comes_back(
    server: FalkorServer, back: asyncio.Event, tmp_path: Path
) -> None:
    policy = GraphPolicy.model_validate(yaml.safe_load(POLICY))
    falkor = Falkor(server.url, ca=None, connections=2, wait_s=5, timeout_ms=300, ends_overdue=True)
    async with serving(server.url, tmp_path, generate_keypair(), graph_claim="", graph_name="g") as executor:
        ended = asyncio.Event()
        writing = asyncio.create_task(writes(executor, ended))
        with pytest.raises(ToolRefused, match="could not be stopped") as raised:
            await FalkorStore(falkor, policy).read("g", RUNAWAY, {})
        assert (raised.value.reason, raised.value.retryable) == ("timeout", False)
        await back.wait()
        ended.set()
        known = await writing
        found = await asked(executor, "cypher_query", query="MATCH (t:Ticket) RETURN count(t)")
        assert found.data["rows"] == [[len(known)]]
    await falkor.aclose()
