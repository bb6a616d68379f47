"""A node with several labels is read and written by whoever may do so with all of them, whichever way they come."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from services.kit.identity.caller import Caller
from tests.integration.graph_executor.conftest import KEEPER, WRITER, Answer, Executor
from tests.integration.graph_executor.graph_servers import GraphServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
# Of the same subject as the others, with rights on Ticket and User.
ANYBODY = Caller("27", frozenset(), {"tenant": "north"})
USER, BOTH, ONE = {"label": "User", "key": "u"}, {"label": "Ticket", "key": "both"}, {"label": "Ticket", "key": "one"}
REPORT: dict[str, Any] = {"type": "REPORTS", "from": USER, "to": BOTH}
BLOCK: dict[str, Any] = {"type": "BLOCKS", "from": BOTH, "to": ONE}


async def cypher(executor: Executor, query: str) -> Answer:
    """Writes as somebody who may write every label."""
    return await executor.by(WRITER).call("cypher_query", query=query, write=True)


@pytest_asyncio.fixture(loop_scope="module")
async def anybody(executor: Executor) -> Executor:
    """A graph with a ticket that is a secret too, and a caller who may read and write tickets."""
    keeper = executor.by(KEEPER)
    made = await cypher(executor, "CREATE (t:Ticket:Secret {key: 'both', text: 'TOP', summary: 's'})")
    assert made.data["result"] == "applied"
    for call in (("add_node", ONE), ("add_node", USER), ("add_edge", REPORT), ("add_edge", BLOCK)):
        assert (await keeper.call(*call)).data["result"] == "created"
    return executor.by(ANYBODY)


async def whole(executor: Executor) -> list[Any]:
    """All tickets and what leads to them, as whoever may read all sees it."""
    keeper = executor.by(KEEPER)
    follow = [{"type": "REPORTS", "direction": "in", "label": "User"}]
    found = [await keeper.call("query_graph", label="Ticket", **more) for more in ({}, {"follow": follow})]
    return [each.data["results"] for each in found]


async def test_it_is_found_by_whoever_may_read_all_its_labels(anybody: Executor) -> None:
    found = await anybody.call("query_graph", label="Ticket", limit=1)
    assert ([path["nodes"][0]["key"] for path in found.data["results"]], found.truncated) == (["one"], False)
    where = [{"property": "summary", "value": "s"}]
    assert (await anybody.call("query_graph", label="Ticket", where=where)).data["results"] == []
    by_key = [{"property": "key", "value": "both"}]
    [seen] = (await anybody.by(KEEPER).call("query_graph", label="Ticket", where=by_key)).data["results"]
    assert seen["nodes"][0]["labels"] == ["Secret", "Ticket"]


@pytest.mark.parametrize("direction", ["in", "any"])
async def test_it_is_on_no_way_of_another(anybody: Executor, direction: str) -> None:
    follow = [
        {"type": "BLOCKS", "direction": direction, "label": "Ticket"},
        {"type": "REPORTS", "direction": "in", "label": "User"},
    ]
    for steps in (follow, follow[:1]):
        assert (await anybody.call("query_graph", label="Ticket", follow=steps)).data["results"] == []
        assert (await anybody.by(KEEPER).call("query_graph", label="Ticket", follow=steps)).data["results"] != []


WRITES: list[tuple[str, dict[str, Any]]] = [
    ("add_node", {**BOTH, "properties": {"summary": "s"}}),
    ("update_props", {**BOTH, "properties": {"summary": "x"}}),
    ("delete_node", {**BOTH, "with_edges": True}),
    ("delete_node", {**USER, "with_edges": True}),
    ("delete_node", {**ONE, "with_edges": True}),
    ("add_edge", {**BLOCK, "from": ONE, "to": BOTH}),
    ("add_edge", BLOCK),
    ("update_props", {"edge": REPORT, "properties": {"since": 1}}),
    ("delete_edge", REPORT),
    ("delete_edge", BLOCK),
]


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
async def test_it_and_its_edges_are_written_by_nobody_else(
    anybody: Executor, tool: str, arguments: dict[str, Any]
) -> None:
    before = await whole(anybody)
    shown = await anybody.call("preview_changes", operations=[{"tool": tool, "arguments": arguments}])
    assert [each.get("reason") for each in shown.data["operations"]] == ["label_refused"]
    refused = await anybody.call(tool, arguments)
    assert refused.reason == "label_refused"
    assert "TOP" not in refused.message
    assert await whole(anybody) == before


@pytest.mark.parametrize("label", ["Ticket", "Secret"])
async def test_it_goes_with_its_edges_and_comes_back_by_whichever_label(anybody: Executor, label: str) -> None:
    before = await whole(anybody)
    keeper = anybody.by(KEEPER)
    operation = {"label": label, "key": "both", "with_edges": True}
    shown = await keeper.call("preview_changes", operations=[{"tool": "delete_node", "arguments": operation}])
    base = shown.data["operations"][0]["base"]
    gone = await keeper.call("delete_node", operation, **base, operation="gone")
    assert (gone.data["result"], len(gone.data["change"]["edges"])) == ("deleted", 2)
    assert [path["nodes"][0]["key"] for path in (await whole(anybody))[0]] == ["one"]

    back = await keeper.call("undo_change", run_id=keeper.run_id, operation_id="gone", operation="back")
    assert (back.data.get("result"), back.message) == ("undone", "")
    assert await whole(anybody) == before
    again = await keeper.call("undo_change", run_id=keeper.run_id, operation_id="back", operation="again")
    assert (again.data.get("result"), again.message) == ("undone", "")
    assert [path["nodes"][0]["key"] for path in (await whole(anybody))[0]] == ["one"]


@pytest.mark.parametrize("key", ["u", "one"])
async def test_its_edges_go_with_the_node_at_their_other_end(anybody: Executor, key: str) -> None:
    label = "User" if key == "u" else "Ticket"
    gone = await anybody.by(KEEPER).call("delete_node", label=label, key=key, with_edges=True)
    assert gone.data["result"] == "deleted"
    [edge] = gone.data["change"]["edges"]
    assert BOTH in (edge["from"], edge["to"])


async def test_a_change_is_undone_by_whoever_may_write_what_its_nodes_are_now(
    executor: Executor, server: GraphServer
) -> None:
    anybody = executor.by(ANYBODY)
    for call in (("add_node", ONE), ("add_node", USER)):
        await anybody.call(*call)
    await anybody.call("add_edge", {"type": "REPORTS", "from": USER, "to": ONE}, operation="edge")
    await server.write(executor.graph, "MATCH (t:Ticket {key: 'one'}) SET t:Secret")
    undo = {"run_id": anybody.run_id, "operation_id": "edge"}
    assert (await anybody.call("undo_change", undo)).reason == "label_refused"
    assert (await anybody.by(KEEPER).call("undo_change", undo)).data["result"] == "undone"


async def test_changes_are_read_by_whoever_may_read_what_they_tell_of(executor: Executor) -> None:
    keeper = executor.by(KEEPER)
    await keeper.call("add_node", label="Secret", key="s", properties={"text": "TOP"}, operation="secret")
    for tool, more in (("read_changes", {}), ("undo_change", {"operation_id": "secret"})):
        refused = await executor.by(ANYBODY).call(tool, run_id=keeper.run_id, **more)
        assert (refused.reason, "TOP" in refused.message) == ("label_refused", False)
    assert len((await keeper.call("read_changes", run_id=keeper.run_id)).data["changes"]) == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("MATCH (t:Ticket {key: 'both'}) SET t:Secret", "unsupported"),
        ("MATCH (t:Ticket {key: 'both'}) SET t.summary = 'x', t:User:REPORTS", "unsupported"),
        ("CREATE (t:REPORTS {key: 'evil'})", "unknown_label"),
        ("CREATE (t:Ticket:`REPORTS` {key: 'evil'})", "unknown_label"),
        ("MERGE (t:Ticket {key: 'both'}) ON MATCH SET t:KNOWS", "unsupported"),
        ("CREATE (u:User {key: 'evil'})-[:REPORTS]->(t:REPORTS {key: 'evil'})", "unknown_label"),
        ("MATCH (t:Ticket) FOREACH (each IN [t] | SET each:BLOCKS)", "unsupported"),
        ("CREATE (t:Ticket&Secret {key: 'evil'})", "unparsable"),
    ],
)
async def test_cypher_gives_a_node_no_label_that_nobody_may_write(anybody: Executor, query: str, reason: str) -> None:
    before = await whole(anybody)
    assert (await cypher(anybody, query)).reason == reason
    assert await whole(anybody) == before


async def test_cypher_names_types_where_edges_are(anybody: Executor) -> None:
    written = await cypher(
        anybody, "MATCH (u:User {key: 'u'})-[r:REPORTS|BLOCKS]->(t:Ticket:Secret {key: 'both'}) SET r.since = 3"
    )
    assert written.data["result"] == "applied"


READS: tuple[tuple[str, Any], ...] = (
    ("MATCH (t:Ticket) RETURN t.key", [["one"]]),
    ("MATCH (t:Ticket) RETURN t", 1),
    ("MATCH (t:Ticket) RETURN properties(t)", 1),
    ("MATCH (t:Ticket)<-[:BLOCKS]-(o:Ticket) RETURN o.summary", []),
    ("MATCH (u:User)-[:REPORTS]->(t) RETURN t.summary", []),
    ("MATCH p = (u:User)-[*1..3]->(t:Ticket) RETURN [n IN nodes(p) | n.summary]", []),
    ("MATCH (t:Ticket) RETURN [(t)<-[:BLOCKS]-(o:Ticket) | o.text]", [[[]]]),
    ("MATCH (u:User) OPTIONAL MATCH (u)-->(t:Ticket) RETURN t.text", [[None]]),
    ("MATCH (t:Ticket) WITH t.key AS k MATCH (t:Ticket) WHERE t.text = 'TOP' RETURN count(*)", [[0]]),
)


@pytest.mark.parametrize("label", ["Secret", "Hidden"])
async def test_cypher_finds_it_neither(executor: Executor, server: GraphServer, label: str) -> None:
    """Secret is a label of the policy that the caller may not read, Hidden is in no policy."""
    anybody = executor.by(ANYBODY)
    for call in (("add_node", ONE), ("add_node", USER)):
        await anybody.call(*call)
    hidden = f"(t:Ticket:{label} {{key: 'both', text: 'TOP', summary: 'TOP'}})"
    await server.write(
        executor.graph,
        f"MATCH (o:Ticket {{key: 'one'}}), (u:User) "
        f"CREATE {hidden} CREATE (u)-[:REPORTS]->(t) CREATE (t)-[:BLOCKS]->(o)",
    )
    for query, expected in READS:
        answer = await anybody.call("cypher_query", query=query)
        assert "TOP" not in answer.text, (query, answer)
        rows = answer.data["rows"]
        assert len(rows) == expected if isinstance(expected, int) else rows == expected, (query, answer)


async def test_cypher_writes_nothing_that_has_a_label_of_nobody(executor: Executor, server: GraphServer) -> None:
    # With a call before, by which the graph has its constraints.
    await executor.by(KEEPER).call("add_node", USER)
    await server.write(executor.graph, "CREATE (:Ticket:Hidden {key: 'both', points: 1})")
    for query in (
        "MATCH (t:Ticket) SET t.points = 2",
        "MERGE (t:Ticket {key: 'both'}) SET t.points = 2",
        "MATCH (t:Ticket) DETACH DELETE t",
    ):
        assert (await cypher(executor, query)).data.get("result") == "unchanged", query
    assert await server.rows(executor.graph, "MATCH (t:Ticket) RETURN t.points") == [[1]]
