"""Changes that were planned from the same graph: one of them is made, whichever replica makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest
import yaml
from signalbox.v1 import tools_pb2

from services.graph_executor.bolt import Bolt, BoltTransaction
from services.graph_executor.bolt_change import take_turn
from services.graph_executor.bolt_store import database_of
from services.graph_executor.elements import Change, EdgeChange, EdgeName, EdgeState, NodeChange, NodeName, NodeState
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.store import GraphStore, Record
from services.kit.tools.effects import Overtaken, WriteCall
from tests.fixtures.bolt_server import ArcadeServer, OwnServer
from tests.integration.graph_executor.conftest import KEEPER, POLICY
from tests.integration.graph_executor.graph_servers import BoltGraphs, GraphServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROUNDS = 6
# How long a server has to let another past the turn that a transaction holds.
HELD_S = 1.0
RIVALS = 4
NAMES = [NodeName("Ticket", "a"), NodeName("Ticket", "b")]
EDGE = EdgeName("BLOCKS", *NAMES)


def holding(name: NodeName, points: int) -> NodeState:
    return NodeState((name.label,), {"key": name.key, "points": points})


async def commit(store: GraphStore, graph: str, change: Change, run: str) -> bool:
    """Whether a change was made."""
    try:
        call = WriteCall(run, str(uuid4()), 1, KEEPER, "update_props", "fingerprint")
        await store.commit(graph, Record(call, tools_pb2.CallToolResponse(), change))
    except Overtaken:
        return False
    return True


async def race(stores: Sequence[GraphStore], graph: str, changes: Sequence[Change]) -> list[bool]:
    """Commits changes at once, each by the next of the replicas."""
    replicas = [stores[number % len(stores)] for number in range(len(changes))]
    return await asyncio.gather(
        *(commit(store, graph, change, str(uuid4())) for store, change in zip(replicas, changes, strict=True))
    )


async def test_of_changes_from_the_same_graph_one_is_made(server: GraphServer) -> None:
    policy, graph = GraphPolicy.model_validate(yaml.safe_load(POLICY)), await server.new_graph()
    stores = [server.store(policy) for _ in range(2)]
    for store in stores:
        assert await store.node(graph, NAMES[0]) is None
    # The first that anybody commits there, all at once.
    made = [Change((NodeChange(NAMES[0], None, holding(NAMES[0], points)),)) for points in range(RIVALS)]
    assert sum(await race(stores, graph, made)) == 1
    for _ in range(ROUNDS):
        before = await stores[0].node(graph, NAMES[0])
        assert before is not None
        told = int(str(before.properties["points"]))
        rivals = [
            Change((NodeChange(NAMES[0], before, holding(NAMES[0], told + 1 + points)),)) for points in range(RIVALS)
        ]
        won = await race(stores, graph, rivals)
        assert sum(won) == 1
        after = await stores[1].node(graph, NAMES[0])
        assert after is not None
        assert after.properties["points"] == told + 1 + won.index(True)


async def test_what_two_changes_read_of_each_other_is_not_lost(server: GraphServer) -> None:
    policy, graph = GraphPolicy.model_validate(yaml.safe_load(POLICY)), await server.new_graph()
    stores = [server.store(policy) for _ in range(2)]
    states = [holding(name, 0) for name in NAMES]
    for name, state in zip(NAMES, states, strict=True):
        assert await stores[0].node(graph, name) is None
        assert await commit(stores[0], graph, Change((NodeChange(name, None, state),)), "first")
    for _ in range(ROUNDS):
        # One ends a node that has no edges; the other gives it one. They write nothing in common.
        ended = Change((NodeChange(NAMES[1], states[1], None),))
        joined = Change(edges=(EdgeChange(EDGE, None, EdgeState({})),))
        won = await race(stores, graph, [ended, joined])
        assert sum(won) == 1
        found = await stores[0].node(graph, NAMES[1]), await stores[0].edge(graph, EDGE)
        assert found == ((None, None) if won[0] else (states[1], EdgeState({})))
        back = ended.inverse() if won[0] else joined.inverse()
        assert await commit(stores[1], graph, back, "back")


async def test_whoever_has_the_turn_is_waited_for_or_begins_again(
    server: GraphServer, bolt: ArcadeServer | OwnServer
) -> None:
    """Two that write nothing in common: what one of them has begun, the other's commit does not pass by unseen."""
    if not isinstance(server, BoltGraphs):
        pytest.skip("FalkorDB makes a change in one query, and has no transactions")
    policy, graph = GraphPolicy.model_validate(yaml.safe_load(POLICY)), await server.new_graph()
    other = server.store(policy)
    assert await other.node(graph, NAMES[0]) is None
    client = Bolt(bolt.url, ca=None, connections=2, wait_s=5, timeout_ms=30_000)
    has_turn, attempts = asyncio.Event(), 0

    async def hold(transaction: BoltTransaction) -> bool:
        nonlocal attempts
        attempts += 1
        await take_turn(transaction)
        has_turn.set()
        return bool((await asyncio.wait({committing}, timeout=HELD_S))[0])

    async def commit_beside() -> bool:
        await has_turn.wait()
        return await commit(other, graph, Change((NodeChange(NAMES[0], None, holding(NAMES[0], 0)),)), "beside")

    committing = asyncio.create_task(commit_beside())
    was_over = await client.write(database_of(graph), hold)
    assert await committing
    assert not was_over or attempts > 1
    await client.aclose()


async def test_writers_that_wait_leave_connections_to_readers(bolt: ArcadeServer | OwnServer) -> None:
    database = await asyncio.to_thread(bolt.make)
    held, go_on = asyncio.Event(), asyncio.Event()
    client = Bolt(bolt.url, ca=None, connections=2, wait_s=1, timeout_ms=30_000)

    async def hold(transaction: BoltTransaction) -> list[list[object]]:
        held.set()
        await go_on.wait()
        return await transaction.rows("RETURN 1", {})

    writers = [asyncio.create_task(client.write(database, hold)) for _ in range(3)]
    await held.wait()
    assert await client.look(database, lambda transaction: transaction.rows("RETURN 2", {})) == [[2]]
    go_on.set()
    assert await asyncio.gather(*writers) == [[[1]]] * 3
    await client.aclose()


async def test_calls_of_one_run_are_numbered_in_turn_and_its_epoch_only_rises(server: GraphServer) -> None:
    policy, graph = GraphPolicy.model_validate(yaml.safe_load(POLICY)), await server.new_graph()
    stores = [server.store(policy) for _ in range(2)]
    assert [await store.node(graph, NAMES[0]) for store in stores] == [None, None]
    changes = [
        Change((NodeChange(NodeName("Ticket", f"t{number}"), None, holding(NodeName("Ticket", f"t{number}"), 0)),))
        for number in range(8)
    ]
    calls = (commit(stores[number % 2], graph, change, "run") for number, change in enumerate(changes))
    assert all(await asyncio.gather(*calls))
    kept = await stores[0].changes(graph, "run")
    assert [each.number for each in kept] == list(range(1, 9))
    claims = [WriteCall("run", "op", epoch, KEEPER, "", "") for epoch in (3, 9, 5, 7)]
    await asyncio.gather(*(stores[number % 2].fence(graph, call) for number, call in enumerate(claims)))
    assert (await stores[0].look_up(graph, claims[0])).epoch == 9
