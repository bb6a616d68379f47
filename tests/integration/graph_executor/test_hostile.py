"""Names, keys, values and Cypher that mean harm: refused for the right reason, or taken as the text that they are."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.kit.tools.executor import ToolRefused
from tests.integration.graph_executor.conftest import KEEPER, POLICY, Executor, serving
from tests.integration.graph_executor.graph_servers import BoltGraphs, GraphServer
from tests.integration.graph_executor.hostile import ANEW, CYPHER, NAMES, NEVER_WRITTEN, TEXTS, WRITES

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUICK = POLICY + "limits: {timeout_ms: 1000, query_memory_bytes: 67108864}\n"
CANARY = {"label": "Ticket", "key": "canary"}
REPORTS = {"type": "REPORTS", "from": {"label": "User", "key": "u"}, "to": CANARY}
# Of what callers have in the graph: hundreds of results are kept beside it.
_ALL = (
    "MATCH (n) WHERE none(label IN labels(n) WHERE label STARTS WITH '__') "
    "RETURN labels(n), properties(n) ORDER BY labels(n)[0], n.key"
)


@dataclass(frozen=True)
class Guarded:
    """An executor whose graph holds a canary, and a way to see all of the graph."""

    executor: Executor
    server: GraphServer
    graph: str

    @property
    def writer(self) -> Executor:
        """The same, as a caller who may write Cypher."""
        return replace(self.executor, caller=Caller("27", frozenset({"graph_writer"}))).new_run()

    async def nodes(self) -> list[Any]:
        """All that callers have in the graph."""
        return await self.server.rows(self.graph, _ALL)

    async def kept(self) -> int:
        """How many results are kept."""
        text = "MATCH (n:__signalbox_result) RETURN count(n.key) AS kept LIMIT 1"
        return int((await self.server.rows(self.graph, text))[0][0])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def guarded(server: GraphServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    graph = await server.new_graph()
    async with serving(
        server.url, directory, generate_keypair(), policy=QUICK, graph_claim="", graph_name=graph
    ) as executor:
        executor = executor.by(KEEPER)
        await executor.call("add_node", CANARY, properties={"summary": "sings"})
        await executor.call("add_node", label="User", key="u")
        await executor.call("add_edge", REPORTS)
        made = Guarded(executor, server, graph)
        assert len(await made.nodes()) == 2
        yield made


def _label(name: str) -> tuple[str, dict[str, Any]]:
    return "add_node", {"label": name, "key": "x"}


def _property(name: str) -> tuple[str, dict[str, Any]]:
    return "add_node", {"label": "Ticket", "key": "x", "properties": {name: "x"}}


def _type(name: str) -> tuple[str, dict[str, Any]]:
    return "add_edge", {**REPORTS, "type": name}


def _removed(name: str) -> tuple[str, dict[str, Any]]:
    return "update_props", {**CANARY, "remove": [name]}


def _condition(name: str) -> tuple[str, dict[str, Any]]:
    return "query_graph", {"label": "Ticket", "where": [{"property": name, "value": "x"}]}


def _followed(name: str) -> tuple[str, dict[str, Any]]:
    return "query_graph", {"label": "Ticket", "follow": [{"type": name, "label": "User"}]}


def _operator(name: str) -> tuple[str, dict[str, Any]]:
    return "query_graph", {"label": "Ticket", "where": [{"property": "key", "operator": name, "value": "x"}]}


def _parameter(name: str) -> tuple[str, dict[str, Any]]:
    return "cypher_query", {"query": "RETURN 1", "parameters": {name: 1}}


PLACES = (_label, _property, _type, _removed, _condition, _followed, _operator, _parameter)
_TAKEN = {
    ("key", "_condition"),
    ("key", "_parameter"),
    ("ticket", "_parameter"),
    ("ticket", "_removed"),
    ("null", "_parameter"),
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_a_name_that_the_policy_does_not_know_is_refused(guarded: Guarded, place: Any) -> None:
    before = await guarded.nodes()
    for name in NAMES:
        tool, arguments = place(name)
        answer = await guarded.executor.call(tool, arguments)
        if (name, place.__name__) not in _TAKEN:
            assert answer.reason in {"invalid_arguments", "invalid_properties", "unknown_property"}, (name, answer)
    assert await guarded.nodes() == before


@pytest.mark.parametrize("text", TEXTS)
async def test_a_key_and_a_value_are_what_they_say(guarded: Guarded, text: str) -> None:
    fits = not any(ord(each) < 32 for each in text) and text == text.rstrip()
    node = {"label": "Ticket", "key": f"k{text}" if fits else "k"}
    if not fits:
        assert (await guarded.executor.call("add_node", label="Ticket", key=f"k{text}")).reason == "invalid_arguments"
    before = await guarded.nodes()
    created = await guarded.executor.call("add_node", node, properties={"summary": text, "tags": [text, text]})
    assert created.data["result"] == "created", created
    for condition in ({"property": "key", "value": node["key"]}, {"property": "summary", "value": text}):
        found = (await guarded.executor.call("query_graph", label="Ticket", where=[condition])).data["results"]
        [held] = [path["nodes"][0]["properties"] for path in found]
        assert held == {"key": node["key"], "summary": text, "tags": [text, text]}
    query = "MATCH (t:Ticket {key: $key}) WHERE t.summary = $text RETURN t.summary, $text"
    read = await guarded.executor.call("cypher_query", query=query, parameters={"key": node["key"], "text": text})
    assert read.data["rows"] == [[text, text]], read
    assert (await guarded.executor.call("update_props", node, properties={"summary": f"{text}!"})).data[
        "result"
    ] == "updated"
    assert (await guarded.executor.call("delete_node", node)).data["result"] == "deleted"
    assert await guarded.nodes() == before


@pytest.mark.parametrize(
    "bad", ["a\0b", "\0", "", "k" * 257, " a", "a ", "a\t", "\n", "a\n", " ", "a\x01b", "a\r", "\x0b"]
)
async def test_a_key_that_can_not_be_kept_is_refused(guarded: Guarded, bad: str) -> None:
    assert (await guarded.executor.call("add_node", label="Ticket", key=bad)).reason == "invalid_arguments"


@pytest.mark.parametrize(("query", "reason"), CYPHER)
async def test_cypher_that_is_not_to_be_read(guarded: Guarded, query: str, reason: str) -> None:
    before, kept = await guarded.nodes(), await guarded.kept()
    answer = await guarded.writer.call("cypher_query", query=query)
    assert answer.reason, answer
    assert not reason or answer.reason == reason, answer
    assert (await guarded.nodes(), await guarded.kept()) == (before, kept)


@pytest.mark.parametrize("query", ANEW)
async def test_what_is_named_anew_comes_to_no_record(guarded: Guarded, query: str) -> None:
    answer = await guarded.writer.call("cypher_query", query=query)
    # A record would be told as a node with a label that the policy does not name, or as what it holds.
    assert answer.reason != "label_refused", answer
    assert not {"fingerprint", "taken", "epoch", "calls"} & set(re.findall(r"\w+", json.dumps(answer.data))), answer


@pytest.mark.parametrize("query", WRITES)
async def test_a_call_that_says_it_reads_writes_nothing(guarded: Guarded, query: str) -> None:
    before = await guarded.nodes()
    assert (await guarded.writer.call("cypher_query", query=query)).reason == "write_refused"
    assert await guarded.nodes() == before


@pytest.mark.parametrize(("query", "reason"), NEVER_WRITTEN)
async def test_what_no_cypher_writes(guarded: Guarded, query: str, reason: str) -> None:
    before = await guarded.nodes()
    answer = await guarded.writer.call("cypher_query", query=query, write=True)
    assert answer.reason, answer
    assert not reason or answer.reason == reason, answer
    assert await guarded.nodes() == before


@pytest.mark.parametrize("query", WRITES)
async def test_the_engine_keeps_no_write_when_it_is_asked_to_read(guarded: Guarded, query: str) -> None:
    before = await guarded.nodes()
    if isinstance(guarded.server, BoltGraphs):
        # Not every server refuses, but none keeps it.
        with suppress(ToolRefused):
            await guarded.server.rows(guarded.graph, query)
    else:
        with pytest.raises(ToolRefused, match="would write"):
            await guarded.server.rows(guarded.graph, query)
    assert await guarded.nodes() == before
