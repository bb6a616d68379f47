"""kill -9 of the database's server, and its absence: what was answered stays, and no key is applied twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from services.kit.errors import error_detail
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.local.falkordb import FalkorServer
from tests.fixtures.bolt_server import OwnServer, bolt_server, missing_for_bolt
from tests.fixtures.graph_database import graph_database
from tests.integration.graph_executor.conftest import Executor, serving

KILLS = 8
NODES = 40
PATIENCE_S = 60.0


@pytest.fixture
async def own_server() -> AsyncIterator[FalkorServer]:
    async with graph_database() as server:
        yield server


async def until_told(executor: Executor, tool: str, arguments: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """Asks with the same key until there is an answer, as a run does that waits for what is away."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return (await executor.call(tool, arguments, operation=operation)).data
            except grpc.aio.AioRpcError as error:
                detail = error_detail(error)
                assert (detail.code, detail.reason) == (grpc.StatusCode.UNAVAILABLE, "GRAPH_DATABASE_AWAY"), detail
                assert detail.retryable
                await asyncio.sleep(0.01)


async def test_a_server_that_is_killed_again_and_again_applies_each_key_once(
    own_server: FalkorServer, tmp_path: Path
) -> None:
    random = Random(7)  # noqa: S311 - spreads the moments
    done, progress = 0, asyncio.Event()
    async with serving(own_server.url, tmp_path, generate_keypair(), graph_claim="") as executor:

        async def write(number: int) -> dict[str, object]:
            nonlocal done
            node = {"label": "Ticket", "key": f"T-{number}", "properties": {"points": number}}
            told = await until_told(executor, "add_node", node, f"op-{number}")
            done += 1
            progress.set()
            return told

        async def kill() -> None:
            for _ in range(KILLS):
                seen = done
                async with asyncio.timeout(PATIENCE_S):
                    while done < min(seen + random.randint(1, 4), NODES):
                        await progress.wait()
                        progress.clear()
                await asyncio.sleep(random.uniform(0, 0.01))  # somewhere in the calls that are on their way
                await own_server.kill()
                await own_server.start()

        killing = asyncio.create_task(kill())
        told = [
            answer
            for start in range(0, NODES, 4)
            for answer in await asyncio.gather(*map(write, range(start, start + 4)))
        ]
        await killing
        # A write that was applied and then asked for again is told as it was applied: never as matched.
        assert [answer["result"] for answer in told] == ["created"] * NODES
        found = await executor.call("query_graph", label="Ticket")
        assert len(found.data["results"]) == NODES
        changes = (await executor.call("read_changes", run_id=executor.run_id)).data["changes"]
        assert sorted(each["operation_id"] for each in changes) == sorted(f"op-{number}" for number in range(NODES))
        for number, answer in enumerate(told):
            assert await until_told(executor, "add_node", _node(number), f"op-{number}") == answer


def _node(number: int) -> dict[str, object]:
    return {"label": "Ticket", "key": f"T-{number}", "properties": {"points": number}}


async def test_a_bolt_server_that_is_killed_applies_each_key_once(tmp_path: Path) -> None:
    if missing := missing_for_bolt():
        pytest.skip(missing)
    with bolt_server(tmp_path) as server:
        if isinstance(server, OwnServer):
            pytest.skip("this server is not the test's to kill")
        graph = await asyncio.to_thread(server.make)
        settings = {"graph_claim": "", "graph_name": graph}
        async with serving(server.url, tmp_path, generate_keypair(), **settings) as executor:
            first = [await until_told(executor, "add_node", _node(number), f"op-{number}") for number in range(3)]
            writes = [
                asyncio.create_task(until_told(executor, "add_node", _node(number), f"op-{number}"))
                for number in range(3, 9)
            ]
            # Some of them are done, and others on their way.
            await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(server.kill)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await executor.call("query_graph", label="Ticket")
            assert error_detail(raised.value).reason == "GRAPH_DATABASE_AWAY"
            await asyncio.to_thread(server.start)
            told = first + list(await asyncio.gather(*writes))
            assert [answer["result"] for answer in told] == ["created"] * 9
            changes = (await executor.call("read_changes", run_id=executor.run_id)).data["changes"]
            assert sorted(each["operation_id"] for each in changes) == [f"op-{number}" for number in range(9)]
            for number, answer in enumerate(told):
                assert await until_told(executor, "add_node", _node(number), f"op-{number}") == answer


async def test_a_database_that_is_away_is_told_as_away(own_server: FalkorServer, tmp_path: Path) -> None:
    async with serving(own_server.url, tmp_path, generate_keypair(), graph_claim="") as executor:
        await executor.call("add_node", _node(0))
        await own_server.kill()
        for tool, arguments in (("add_node", _node(1)), ("query_graph", {"label": "Ticket"})):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await executor.call(tool, arguments)
            detail = error_detail(raised.value)
            assert (detail.code, detail.reason, detail.retryable) == (
                grpc.StatusCode.UNAVAILABLE,
                "GRAPH_DATABASE_AWAY",
                True,
            )
        await own_server.start()
        told = await until_told(executor, "add_node", _node(1), "again")
        assert told["result"] == "created"
        # A server that was started again has forgotten its bounds, and is told them before anything is asked of it.
        writer = executor.by(Caller("27", frozenset({"graph_writer"})))
        endless = "UNWIND range(1, 10000) AS x UNWIND range(1, 10000) AS y MATCH (t:Ticket) SET t.points = x * y"
        # Of its time and its memory, either may be over first.
        assert (await writer.call("cypher_query", query=endless, write=True)).reason in {"timeout", "too_large"}


async def test_a_plan_goes_on_after_an_outage_with_each_operation_once(
    own_server: FalkorServer, tmp_path: Path
) -> None:
    async with serving(own_server.url, tmp_path, generate_keypair(), graph_claim="") as executor:
        await until_told(executor, "add_node", {"label": "Ticket", "key": "t"}, "op-0")
        await own_server.kill()
        waiting = asyncio.create_task(until_told(executor, "add_node", {"label": "User", "key": "u"}, "op-1"))
        await asyncio.sleep(0)
        await own_server.start()
        assert (await waiting)["result"] == "created"
        edge = {"type": "REPORTS", "from": {"label": "User", "key": "u"}, "to": {"label": "Ticket", "key": "t"}}
        assert (await until_told(executor, "add_edge", edge, "op-2"))["result"] == "created"
        changes = (await executor.call("read_changes", run_id=executor.run_id)).data["changes"]
        assert [each["operation_id"] for each in changes] == ["op-0", "op-1", "op-2"]
