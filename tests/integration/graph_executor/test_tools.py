"""The tools, over gRPC and real graph databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import grpc
import pytest

from services.kit.errors import error_detail
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from tests.integration.graph_executor.conftest import KEEPER, Executor, serving
from tests.integration.graph_executor.graph_servers import GraphServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
TICKET = {"label": "Ticket", "key": "TICKET-1"}
USER = {"label": "User", "key": "john.doe"}
REPORTS = {"type": "REPORTS", "from": USER, "to": TICKET}


async def add_all(executor: Executor) -> None:
    await executor.call("add_node", TICKET, properties={"summary": "Fix login", "status": "open", "tags": ["a"]})
    await executor.call("add_node", USER, properties={"name": "John Doe"})
    answer = await executor.call("add_edge", REPORTS, properties={"since": 3})
    assert answer.data["result"] == "created", answer


async def test_a_node_is_created_once_and_then_matched(executor: Executor) -> None:
    created = await executor.call("add_node", TICKET, properties={"status": "open", "points": 3})
    assert created.data["result"] == "created", created
    matched = await executor.call("add_node", TICKET, properties={"status": "closed"})
    assert (matched.data["result"], matched.data["differs"]) == ("matched", ["status"])
    assert matched.data["properties"] == {"key": "TICKET-1", "status": "open", "points": 3}
    assert matched.data["change"] == {"nodes": [], "edges": []}


async def test_an_edge_is_created_once_and_then_matched(executor: Executor) -> None:
    missing = await executor.call("add_edge", REPORTS)
    assert missing.reason == "node_not_found"
    await add_all(executor)
    assert (await executor.call("add_edge", REPORTS)).data["result"] == "matched"
    found = await executor.call("query_graph", label="User", follow=[{"type": "REPORTS", "label": "Ticket"}])
    [path] = found.data["results"]
    assert [node["key"] for node in path["nodes"]] == ["john.doe", "TICKET-1"]
    assert path["edges"][0]["properties"] == {"since": 3}


async def test_properties_are_set_and_removed(executor: Executor) -> None:
    await add_all(executor)
    answer = await executor.call("update_props", TICKET, properties={"status": "in progress"}, remove=["tags"])
    assert answer.data["result"] == "updated", answer
    [node] = answer.data["change"]["nodes"]
    assert node["before"]["properties"]["tags"] == ["a"]
    assert node["after"]["properties"] == {"key": "TICKET-1", "summary": "Fix login", "status": "in progress"}
    again = await executor.call("update_props", TICKET, properties={"status": "in progress"})
    assert again.data["result"] == "unchanged"
    edge = await executor.call("update_props", edge=REPORTS, properties={"since": 9})
    assert edge.data["change"]["edges"][0]["after"]["properties"] == {"since": 9}


async def test_a_base_revision_that_moved_on_is_refused(executor: Executor) -> None:
    created = await executor.call("add_node", TICKET, properties={"status": "open"})
    base = created.data["revision"]
    moved = await executor.call("update_props", TICKET, properties={"status": "closed"}, base_revision=base)
    assert moved.data["result"] == "updated"
    for tool, more in (("update_props", {"properties": {"points": 1}}), ("delete_node", {})):
        refused = await executor.call(tool, TICKET, base_revision=base, **more)
        assert refused.reason == "revision_moved", refused
    assert (await executor.call("delete_node", TICKET, base_revision=moved.data["revision"])).data[
        "result"
    ] == "deleted"


async def test_a_node_with_edges_is_deleted_only_when_that_is_said(executor: Executor) -> None:
    await add_all(executor)
    refused = await executor.call("delete_node", TICKET)
    assert refused.reason == "node_has_edges"
    deleted = await executor.call("delete_node", TICKET, with_edges=True)
    assert len(deleted.data["change"]["edges"]) == 1
    assert (await executor.call("query_graph", label="Ticket")).data["results"] == []


async def test_a_node_is_deleted_with_the_edges_that_were_shown_and_no_others(executor: Executor) -> None:
    await add_all(executor)
    wanted = {**TICKET, "with_edges": True}

    async def based() -> dict[str, str]:
        previewed = await executor.call("preview_changes", operations=[{"tool": "delete_node", "arguments": wanted}])
        base: dict[str, str] = previewed.data["operations"][0]["base"]
        return base

    for change in (
        ("add_edge", {"type": "BLOCKS", "from": TICKET, "to": TICKET}),
        ("update_props", {"edge": REPORTS, "properties": {"since": 4}}),
        ("delete_edge", REPORTS),
    ):
        base = await based()
        assert (await executor.call(*change)).reason == ""
        refused = await executor.call("delete_node", wanted, **base)
        assert refused.reason == "revision_moved", (change, refused)
        assert "edges" in refused.message
    assert (await executor.call("delete_node", wanted, **await based())).data["result"] == "deleted"


async def test_an_edge_is_deleted(executor: Executor) -> None:
    await add_all(executor)
    assert (await executor.call("delete_edge", REPORTS)).data["result"] == "deleted"
    assert (await executor.call("delete_edge", REPORTS)).reason == "edge_not_found"


async def test_searches_by_conditions(executor: Executor) -> None:
    for number in range(6):
        properties = {"status": "open" if number % 2 else "closed", "points": number, "summary": f"about {number}"}
        await executor.call("add_node", label="Ticket", key=f"T-{number}", properties=properties)

    async def keys(**search: object) -> list[str]:
        answer = await executor.call("query_graph", label="Ticket", **search)
        return [path["nodes"][0]["key"] for path in answer.data["results"]]

    def where(name: str, operator: str, value: object) -> list[dict[str, object]]:
        return [{"property": name, "operator": operator, "value": value}]

    assert await keys(where=[{"property": "status", "value": "open"}]) == ["T-1", "T-3", "T-5"]
    assert await keys(where=where("points", "ge", 4)) == ["T-4", "T-5"]
    assert await keys(where=where("summary", "contains", "out 2")) == ["T-2"]
    assert await keys(where=where("key", "in", ["T-0", "T-9"])) == ["T-0"]
    assert await keys(where=where("urgent", "exists", True)) == []
    assert await keys(where=where("status", "ne", "open") + where("points", "lt", 3)) == ["T-0", "T-2"]
    assert await keys(limit=2) == ["T-0", "T-1"]
    assert (await executor.call("query_graph", label="Ticket", limit=2)).truncated
    assert (await executor.call("query_graph", label="User")).text == "Nothing found."


async def test_cypher_reads(executor: Executor) -> None:
    await add_all(executor)
    answer = await executor.call(
        "cypher_query",
        query="MATCH (u:User)-[e:REPORTS]->(t:Ticket {status: $status}) RETURN u.name AS who, t, e, count(*) AS n",
        parameters={"status": "open"},
    )
    assert answer.data["columns"] == ["who", "t", "e", "n"], answer
    [[who, ticket, edge, count]] = answer.data["rows"]
    assert (who, count, edge) == ("John Doe", 1, {"type": "REPORTS", "properties": {"since": 3}})
    assert ticket["properties"]["key"] == "TICKET-1"
    counted = await executor.call("cypher_query", query="MATCH (t:Ticket) RETURN count(t)")
    assert counted.data["rows"] == [[1]]


async def test_of_more_rows_than_there_may_be_the_first_are_told(executor: Executor) -> None:
    for rows, truncated in ((200, False), (201, True), (9000, True)):
        answer = await executor.call("cypher_query", query=f"UNWIND range(1, {rows}) AS x RETURN x")
        assert [row[0] for row in answer.data["rows"]] == list(range(1, 201))
        assert answer.truncated == truncated


async def test_cypher_writes_for_the_role_alone(executor: Executor) -> None:
    query = {"query": "MATCH (t:Ticket) SET t.status = 'closed' RETURN t.key", "write": True}
    await executor.call("add_node", TICKET)
    assert (await executor.call("cypher_query", query)).reason == "write_refused"
    writer = replace(executor, caller=replace(executor.caller, roles=frozenset({"graph_writer"}))).new_run()
    told = await writer.call("cypher_query", query, operation="one")
    assert told.data["counts"] == {"properties_set": 1}, told
    assert told.data["rows"] == [["TICKET-1"]]
    assert told == await writer.call("cypher_query", query, operation="one")
    nothing = await writer.call("cypher_query", query="MATCH (t:Ticket {key: 'no'}) SET t.points = 1", write=True)
    assert nothing.data["result"] == "unchanged", nothing
    changes = await writer.call("read_changes", run_id=writer.run_id)
    assert [(each["tool"], each["undo"]) for each in changes.data["changes"]] == [("cypher_query", False)] * 2


@pytest.mark.parametrize("given", ["SET t.key = 'TICKET-2'", "SET t += {key: 'TICKET-2', status: 'closed'}"])
async def test_cypher_takes_no_key_that_another_node_has(executor: Executor, given: str) -> None:
    for key in ("TICKET-1", "TICKET-2"):
        await executor.call("add_node", label="Ticket", key=key, properties={"status": "open"})
    before = (await executor.call("query_graph", label="Ticket")).data
    writer = replace(executor, caller=replace(executor.caller, roles=frozenset({"graph_writer"}))).new_run()
    refused = await writer.call("cypher_query", query=f"MATCH (t:Ticket {{key: 'TICKET-1'}}) {given}", write=True)
    assert (refused.reason, refused.retryable) == ("query_failed", False), refused
    assert (await executor.call("query_graph", label="Ticket")).data == before


async def test_what_a_run_changed_is_previewed_read_and_undone(executor: Executor) -> None:
    operations = [
        {"tool": "add_node", "arguments": {**TICKET, "properties": {"status": "open"}}},
        {"tool": "add_node", "arguments": USER},
        {"tool": "add_edge", "arguments": REPORTS},
        {"tool": "delete_node", "arguments": {**USER, "with_edges": True}},
    ]
    preview = await executor.call("preview_changes", operations=operations)
    assert [each["result"] for each in preview.data["operations"]] == ["created", "created", "created", "deleted"], (
        preview
    )
    assert (await executor.call("query_graph", label="Ticket")).data["results"] == []
    for number, each in enumerate(operations):
        told = await executor.call(each["tool"], each["arguments"], operation=f"op-{number}")  # type: ignore[arg-type]
        assert told.data["change"] == preview.data["operations"][number]["change"]
    changes = (await executor.call("read_changes", run_id=executor.run_id)).data["changes"]
    assert [each["operation_id"] for each in changes] == ["op-0", "op-1", "op-2", "op-3"]
    undo = executor.new_run()
    for each in reversed(changes):
        told = await undo.call("undo_change", run_id=executor.run_id, operation_id=each["operation_id"])
        assert told.data["result"] == "undone", told
    for label in ("Ticket", "User"):
        assert (await executor.call("query_graph", label=label)).data["results"] == []


async def test_an_undo_says_what_stands_in_its_way(executor: Executor) -> None:
    await executor.call("add_node", TICKET, operation="made")
    await executor.call("update_props", TICKET, properties={"points": 4})
    refused = await executor.call("undo_change", run_id=executor.run_id, operation_id="made")
    assert refused.reason == "changed_since"
    assert "Ticket 'TICKET-1' is not as it was left" in refused.message
    await executor.call("update_props", TICKET, remove=["points"])
    await executor.call("add_node", USER)
    await executor.call("add_edge", REPORTS)
    refused = await executor.call("undo_change", run_id=executor.run_id, operation_id="made")
    assert "has edges since" in refused.message


async def test_labels_are_for_roles(executor: Executor) -> None:
    await executor.call("add_node", label="Secret", key="s", properties={"text": "x"})
    plain = replace(executor, caller=replace(executor.caller, roles=frozenset()))
    reader = replace(executor, caller=replace(executor.caller, roles=frozenset({"reader"})))
    assert (await plain.call("query_graph", label="Secret")).reason == "label_refused"
    assert (await plain.call("query_graph", label="User", follow=[{"type": "KNOWS", "label": "Secret"}])).reason == (
        "label_refused"
    )
    assert (await plain.call("cypher_query", query="MATCH (s:Secret) RETURN s")).reason == "unknown_label"
    assert (await reader.call("cypher_query", query="MATCH (s:Secret) RETURN s.text")).data["rows"] == [["x"]]
    assert len((await reader.call("query_graph", label="Secret")).data["results"]) == 1
    for one in (plain, reader):
        refused = await one.call("add_node", label="Secret", key="t", properties={"text": "x"})
        assert refused.reason == "label_refused"


async def test_callers_graphs_are_apart(server: GraphServer, tmp_path: Path) -> None:
    if server.one_graph:
        pytest.skip("this server has one graph")
    tenants = [uuid4().hex[:8], f"{uuid4().hex} of: the North/South"]
    for tenant in tenants:
        await server.new_graph(tenant=quote(tenant, safe=""))
    async with serving(server.url, tmp_path, generate_keypair()) as made:
        one, other = (made.by(replace(KEEPER, claims={"tenant": tenant})) for tenant in tenants)
        await one.call("add_node", TICKET)
        assert (await other.call("query_graph", label="Ticket")).data["results"] == []
        assert (await other.call("cypher_query", query="MATCH (t:Ticket) RETURN count(t)")).data["rows"] == [[0]]
        assert (await other.call("read_changes", run_id=one.run_id)).data["changes"] == []
        assert len((await one.call("query_graph", label="Ticket")).data["results"]) == 1


async def test_changes_are_their_makers_and_of_who_may_write_all(executor: Executor) -> None:
    await executor.call("add_node", TICKET, operation="made")
    graph = executor.caller.claims
    stranger = executor.by(Caller("28", frozenset(), graph))
    keeper = executor.by(Caller("29", frozenset({"keeper"}), graph))
    assert len((await stranger.call("query_graph", label="Ticket")).data["results"]) == 1
    for tool, arguments in (("read_changes", {}), ("undo_change", {"operation_id": "made"})):
        refused = await stranger.call(tool, run_id=executor.run_id, **arguments)
        assert (refused.reason, refused.data) == ("change_not_found", {}), refused
    assert len((await executor.call("query_graph", label="Ticket")).data["results"]) == 1
    told = await keeper.call("undo_change", run_id=executor.run_id, operation_id="made")
    assert told.data["result"] == "undone", told


async def test_a_writing_query_that_makes_a_row_of_none_is_applied_once(executor: Executor) -> None:
    await executor.call("add_node", TICKET, properties={"points": 0})
    writer = replace(executor, caller=replace(executor.caller, roles=frozenset({"graph_writer"}))).new_run()
    text = "WITH count(*) AS rows MATCH (t:Ticket) SET t.points = t.points + 1 RETURN rows"
    for _ in range(3):
        told = await writer.call("cypher_query", query=text, write=True, operation="one")
        assert told.data["rows"] == [[1]]
    both = [writer.call("cypher_query", query=text, write=True, operation="two") for _ in range(6)]
    assert len({answer.text for answer in await asyncio.gather(*both)}) == 1
    [[points]] = (await executor.call("cypher_query", query="MATCH (t:Ticket) RETURN t.points")).data["rows"]
    assert points == 2


@pytest.mark.parametrize("number", [0.1 + 0.2, 1 / 3, 1e300, 5e-324, -0.0, 2.0**53 + 2, 1.5])
async def test_numbers_are_as_they_were_written(executor: Executor, number: float) -> None:
    await executor.call("add_node", TICKET, properties={"weight": number}, operation="made")
    [path] = (await executor.call("query_graph", label="Ticket")).data["results"]
    assert path["nodes"][0]["properties"]["weight"] == pytest.approx(number, rel=1e-14)
    matched = await executor.call("add_node", TICKET, properties={"weight": number})
    assert matched.data["differs"] == []
    assert (await executor.call("update_props", TICKET, properties={"points": 1}, operation="set")).data["result"]
    for operation in ("set", "made"):
        undone = await executor.call("undo_change", run_id=executor.run_id, operation_id=operation)
        assert undone.data["result"] == "undone", undone


async def test_a_graph_whose_keys_are_not_unique_is_told_as_such(server: GraphServer, tmp_path: Path) -> None:
    if server.one_graph:
        pytest.skip("this server's one graph has its constraints already")
    graph = await server.new_graph()
    for _ in range(2):
        await server.write(graph, "CREATE (:Ticket {key: 'twice'})")
    async with serving(server.url, tmp_path, generate_keypair(), graph_claim="", graph_name=graph) as executor:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await executor.call("add_node", TICKET)
        detail = error_detail(raised.value)
        assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "GRAPH_UNFIT")
    assert await server.rows(graph, "MATCH (t:Ticket) RETURN t.key") == [["twice"], ["twice"]]
