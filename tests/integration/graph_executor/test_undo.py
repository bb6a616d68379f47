"""Any sequence of calls, followed by the undo of all of them, gives the graph back."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from signalbox.v1 import tools_pb2

from services.graph_executor.elements import Change, NodeChange, NodeName, NodeState
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.store import Record
from services.kit.identity.keys import generate_keypair
from services.kit.tools.effects import Overtaken, WriteCall
from tests.fixtures.bolt_server import ArcadeServer, OwnServer
from tests.fixtures.graph_database import graph_database
from tests.integration.graph_executor.conftest import KEEPER, POLICY, Executor, serving
from tests.integration.graph_executor.graph_servers import BoltGraphs, FalkorGraphs, GraphServer

LABELS = ("Ticket", "User", "Secret")
KEYS = ("a", "ключ 'quoted' \"twice\" `back` \\ $x {y}")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
nodes = st.fixed_dictionaries({"label": st.sampled_from(LABELS), "key": st.sampled_from(KEYS)})
tickets = st.fixed_dictionaries(
    {},
    optional={
        "summary": texts,
        "points": st.integers(-(2**53), 2**53),
        "weight": st.floats(allow_nan=False, allow_infinity=False),
        "urgent": st.booleans(),
        "tags": st.lists(texts, max_size=3),
    },
)


@st.composite
def properties(draw: st.DrawFn, label: str) -> dict[str, Any]:
    if label == "Ticket":
        return draw(tickets)
    return {"name": draw(texts)} if label == "User" else {"text": draw(texts)}


@st.composite
def edges(draw: st.DrawFn) -> dict[str, Any]:
    kind, start, end = draw(
        st.sampled_from([("REPORTS", "User", "Ticket"), ("BLOCKS", "Ticket", "Ticket"), ("KNOWS", "Secret", "Secret")])
    )
    ends = [{"label": label, "key": draw(st.sampled_from(KEYS))} for label in (start, end)]
    return {"type": kind, "from": ends[0], "to": ends[1]}


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    tool = draw(st.sampled_from(["add_node", "add_edge", "update_props", "delete_node", "delete_edge", "query_graph"]))
    if tool in ("add_edge", "delete_edge"):
        edge = draw(edges())
        since = {"since": draw(st.integers(0, 9))} if tool == "add_edge" and edge["type"] == "REPORTS" else None
        return tool, {**edge, **({"properties": since} if since and draw(st.booleans()) else {})}
    node = draw(nodes)
    if tool == "query_graph":
        return tool, {"label": node["label"]}
    if tool == "delete_node":
        return tool, {**node, "with_edges": draw(st.booleans())}
    if tool == "update_props" and draw(st.booleans()):
        edge = draw(edges().filter(lambda one: one["type"] == "REPORTS"))
        return tool, {"edge": edge, "properties": {"since": draw(st.integers(0, 9))}}
    return tool, {**node, "properties": draw(properties(node["label"]))}


def joining(start: str, kind: str, end: str) -> list[tuple[str, dict[str, Any]]]:
    """All edges of a type that there can be."""
    return [
        ("add_edge", {"type": kind, "from": {"label": start, "key": one}, "to": {"label": end, "key": other}})
        for one in KEYS
        for other in KEYS
    ]


NODES = [
    ("add_node", {"label": label, "key": key, "properties": {"text": "t"} if label == "Secret" else {}})
    for label in LABELS
    for key in KEYS
]
EDGES = (
    joining("User", "REPORTS", "Ticket") + joining("Ticket", "BLOCKS", "Ticket") + joining("Secret", "KNOWS", "Secret")
)


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    """Calls that make a graph: most nodes, some edges, and whatever else."""
    absent = draw(st.sets(st.sampled_from(range(len(NODES))), max_size=2))
    joined = draw(st.sets(st.sampled_from(range(len(EDGES)))))
    made = [node for number, node in enumerate(NODES) if number not in absent]
    return made + [EDGES[number] for number in sorted(joined)] + draw(st.lists(calls(), max_size=3))


async def everything(executor: Executor) -> Any:
    """What the tools see of the graph: all nodes, and all edges by what they join."""
    found = [(await executor.call("query_graph", label=label)).data["results"] for label in LABELS]
    for label, kind, end in (
        ("User", "REPORTS", "Ticket"),
        ("Ticket", "BLOCKS", "Ticket"),
        ("Secret", "KNOWS", "Secret"),
    ):
        joined = await executor.call("query_graph", label=label, follow=[{"type": kind, "label": end}])
        found.append(joined.data["results"])
    return found


class World:
    """An executor on a server, used from tests that are not asynchronous."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self._stack = AsyncExitStack()

    def open(self, directory: Path, bolt: ArcadeServer | OwnServer | None) -> None:
        self.executor = self.runner.run(self._open(directory, bolt))

    async def _open(self, directory: Path, bolt: ArcadeServer | OwnServer | None) -> Executor:
        server: GraphServer
        server = BoltGraphs(bolt) if bolt else FalkorGraphs(await self._stack.enter_async_context(graph_database()))
        self.server = server
        self._stack.push_async_callback(server.aclose)
        # Databases are dear: over Bolt there is one, and it is emptied.
        self.graph = await server.new_graph() if bolt else "signalbox"
        settings = {"graph_claim": "" if bolt else "tenant", "graph_name": self.graph}
        return await self._stack.enter_async_context(serving(server.url, directory, generate_keypair(), **settings))

    async def run(self) -> Executor:
        """Returns the executor, for a run of a caller whose graph is empty."""
        if isinstance(self.server, BoltGraphs):
            await self.server.empty(self.graph)
        return replace(self.executor, caller=replace(KEEPER, claims={"tenant": str(uuid4())}), run_id=str(uuid4()))

    def close(self) -> None:
        self.runner.run(self._stack.aclose())
        self.runner.close()


@pytest.fixture(scope="module", params=["falkordb", "bolt"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    bolt = request.getfixturevalue("bolt") if request.param == "bolt" else None
    with tempfile.TemporaryDirectory(prefix="graph-") as directory:
        made = World()
        made.open(Path(directory), bolt)
        try:
            yield made
        finally:
            made.close()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=worlds(), sequence=st.lists(calls(), min_size=1, max_size=14))
# Edges of two types end with their node: the database finds those that were there before in another order.
@example(
    before=[
        ("add_node", {"label": "Ticket", "key": "a"}),
        ("add_node", {"label": "User", "key": "a"}),
        ("add_edge", {"type": "REPORTS", "from": {"label": "User", "key": "a"}, "to": {"label": "Ticket", "key": "a"}}),
    ],
    sequence=[
        (
            "add_edge",
            {"type": "BLOCKS", "from": {"label": "Ticket", "key": "a"}, "to": {"label": "Ticket", "key": "a"}},
        ),
        ("delete_node", {"label": "Ticket", "key": "a", "with_edges": True}),
    ],
)
def test_undoing_all_gives_the_graph_back(
    world: World, before: list[tuple[str, dict[str, Any]]], sequence: list[tuple[str, dict[str, Any]]]
) -> None:
    world.runner.run(check(world, before, sequence))


async def check(
    world: World, before: list[tuple[str, dict[str, Any]]], sequence: list[tuple[str, dict[str, Any]]]
) -> None:
    executor = await world.run()
    for tool, arguments in before:
        await executor.call(tool, arguments)
    begun = await everything(executor)
    run = executor.new_run()
    operations = [{"tool": tool, "arguments": arguments} for tool, arguments in sequence if tool != "query_graph"]
    preview = (await run.call("preview_changes", operations=operations)).data["operations"]
    assert await everything(executor) == begun
    told = [await run.call(tool, arguments) for tool, arguments in sequence]
    wrote = [answer for (tool, _), answer in zip(sequence, told, strict=True) if tool != "query_graph"]
    for foreseen, answer in zip(preview, wrote, strict=True):
        assert foreseen.get("reason", "") == answer.reason, (foreseen, answer)
        assert foreseen.get("change") == answer.data.get("change")
    ended = await everything(executor)
    undo, redo = executor.new_run(), executor.new_run()
    await undo_all(run, undo)
    assert await everything(executor) == begun
    await undo_all(undo, redo)
    assert await everything(executor) == ended


async def undo_all(run: Executor, undo: Executor) -> None:
    changes = (await undo.call("read_changes", run_id=run.run_id)).data["changes"]
    for each in reversed(changes):
        answer = await undo.call("undo_change", run_id=run.run_id, operation_id=each["operation_id"])
        assert answer.data.get("result") == "undone", (each, answer)


async def six_changes(executor: Executor) -> dict[str, Any]:
    """Makes changes, some of the same node, and one that another has taken back by hand; what there was before."""
    ticket, user = {"label": "Ticket", "key": "a"}, {"label": "User", "key": "a"}
    reports = {"type": "REPORTS", "from": user, "to": ticket}
    await executor.call("add_node", ticket, properties={"status": "open"})
    before: dict[str, Any] = await everything(executor)
    for tool, arguments in (
        ("update_props", {**ticket, "properties": {"status": "closed"}}),
        ("update_props", {**ticket, "properties": {"status": "open"}}),
        ("add_node", user),
        ("add_edge", reports),
        ("update_props", {"edge": reports, "properties": {"since": 3}}),
        ("delete_node", {**ticket, "with_edges": True}),
    ):
        assert not (await executor.call(tool, arguments)).reason
    return before


def test_an_undo_goes_on_where_another_stopped(world: World) -> None:
    async def check() -> None:
        run = await world.run()
        before = await six_changes(run)
        changes = (await run.call("read_changes", run_id=run.run_id)).data["changes"][1:]
        for done in range(len(changes) + 1):
            undo, again = run.new_run(), run.new_run()
            await undo_some(run.run_id, undo, changes[len(changes) - done :])
            told = await undo_some(run.run_id, again, changes)
            assert told == ["unchanged"] * done + ["undone"] * (len(changes) - done)
            assert await everything(run) == before
            # Brought back, each by the undo of what undid it, they can be undone again.
            await undo_all(again, run.new_run())
            await undo_all(undo, run.new_run())
            kept = (await run.call("read_changes", run_id=run.run_id)).data["changes"]
            assert not any(each["undone"] for each in kept)

    world.runner.run(check())


def test_two_undos_at_once_take_a_run_back_once(world: World) -> None:
    async def check() -> None:
        run = await world.run()
        nodes = [{"label": "Ticket", "key": f"t-{number}"} for number in range(12)]
        for node in nodes:
            await run.call("add_node", node)
        changes = (await run.call("read_changes", run_id=run.run_id)).data["changes"]
        one, other = run.new_run(), run.new_run()
        told = await asyncio.gather(*(undo_some(run.run_id, undo, changes) for undo in (one, other)))
        assert [sorted(pair) for pair in zip(*told, strict=True)] == [["unchanged", "undone"]] * len(nodes)
        made = [(await run.call("read_changes", run_id=undo.run_id)).data["changes"] for undo in (one, other)]
        assert sum(map(len, made)) == len(nodes)
        assert not any(await everything(run))

    world.runner.run(check())


async def undo_some(run_id: str, undo: Executor, changes: list[dict[str, Any]]) -> list[str]:
    """Undoes these changes, the last first; what was told of each."""
    return [
        (await undo.call("undo_change", run_id=run_id, operation_id=each["operation_id"])).data.get("result", "refused")
        for each in reversed(changes)
    ]


def test_a_change_is_undone_once_although_the_graph_looks_the_same(world: World) -> None:
    async def check() -> None:
        graph = await world.server.new_graph()
        store = world.server.store(GraphPolicy.model_validate(yaml.safe_load(POLICY)))
        name = NodeName("Ticket", "a")
        made = Change(nodes=(NodeChange(name, None, NodeState(("Ticket",), {"key": "a"})),))

        async def commit(operation: str, change: Change, turns: tuple[str, ...] = ()) -> None:
            call = WriteCall("run", operation, 1, KEEPER, "add_node", operation)
            await store.commit(graph, Record(call, tools_pb2.CallToolResponse(), change, turns=turns))

        assert await store.node(graph, name) is None
        await commit("made", made)
        [kept] = await store.changes(graph, "run")
        await commit("undone", made.inverse(), (kept.record,))
        await commit("made again", made)
        with pytest.raises(Overtaken):
            await commit("undone again", made.inverse(), (kept.record,))
        assert await store.node(graph, name) is not None

    world.runner.run(check())
