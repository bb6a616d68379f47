"""Assistants are the platform's agents: found by name, or by the id that LangGraph's own server gives a graph."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signalbox.v1 import agent_outline_pb2, agents_pb2, hosted_pb2, runs_pb2

from services.http_api.errors import NotFound
from services.http_api.gateway import Caller
from services.http_api.json_bodies import json_of

# The name space in which LangGraph's server makes the id of a graph's own assistant.
GRAPH_IDS: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
START, END = "__start__", "__end__"
# An agent has no time at which it was made: what it runs on is told apart by its digest.
BEGINNING = "1970-01-01T00:00:00+00:00"


def assistant_id_of(agent: str) -> str:
    """Returns the id of an agent: the same on every replica, whoever asks."""
    return str(uuid.uuid5(GRAPH_IDS, agent))


@dataclass(frozen=True)
class Assistant:
    """An agent as callers of the HTTP API have it."""

    agent: agents_pb2.Agent

    @property
    def name(self) -> str:
        """Its name."""
        return self.agent.name

    @property
    def is_hosted(self) -> bool:
        """Whether it is a graph that a team has brought."""
        return self.agent.input_type == hosted_pb2.GraphInput.DESCRIPTOR.full_name

    @property
    def output_fields(self) -> frozenset[str]:
        """Names of the state's fields that it gives back; empty where that is not known."""
        schema = json_of(self.agent.output_schema)
        return frozenset(schema.get("properties") or ())

    def reads(self, node: str) -> Sequence[str]:
        """Returns the fields of the state that a node is given; none where that is not known."""
        return next((each.reads for each in self.agent.outline.nodes if each.node == node), ())

    def known(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what of an input the graph's state has; all of it where that is nothing, so that it is refused.

        LangGraph passes over the rest, and pages count on that: they send what their own parts keep, too.
        """
        schema = json_of(self.agent.input_schema)
        fields = schema.get("properties") or {}
        if schema.get("additionalProperties"):
            return dict(given)
        return {name: value for name, value in given.items() if name in fields} or dict(given)

    def document(self) -> dict[str, Any]:
        """Returns it as the protocol has it."""
        return {
            "assistant_id": assistant_id_of(self.name),
            "graph_id": self.name,
            "name": self.name,
            "description": self.agent.description,
            "config": {},
            "context": {},
            "metadata": {"created_by": "system", "graph_version": self.agent.graph_version, "pool": self.agent.pool},
            "version": 1,
            "created_at": BEGINNING,
            "updated_at": BEGINNING,
        }

    def schemas(self) -> dict[str, Any]:
        """Returns the JSON Schemas of a hosted graph; of the platform's own agents the protos say it."""
        agent = self.agent
        of = {name: json_of(getattr(agent, name)) if agent.HasField(name) else None for name in _SCHEMAS}
        return {
            "graph_id": self.name,
            **of,
            "state_schema": of["output_schema"],
            "config_schema": None,
        }

    def graph(self) -> dict[str, Any]:
        """Returns its nodes and edges, as LangGraph draws a graph."""
        return drawn(self.agent.outline)

    def matches(self, *, graph_id: str | None, name: str | None, metadata: Mapping[str, Any]) -> bool:
        """Whether a search is for it."""
        document = self.document()
        return (
            graph_id in (None, self.name)
            and (name or "").lower() in self.name.lower()
            and metadata.items() <= document["metadata"].items()
        )


_SCHEMAS = ("input_schema", "output_schema", "context_schema")


def drawn(outline: agent_outline_pb2.AgentOutline) -> dict[str, Any]:
    """Returns the nodes and edges of an outline; edges that a decision takes are conditional."""
    edges: dict[tuple[str, str], bool] = {(START, outline.entry): False}
    for node in outline.nodes:
        ways = [*node.destinations, *(way.destination for rule in node.rules for way in rule.ways)]
        if ways:
            edges |= {(node.node, destination): True for destination in ways}
        elif node.then:
            edges[node.node, node.then] = False
    names = [START, *(node.node for node in outline.nodes), END]
    return {
        "nodes": [{"id": name, "type": "runnable", "data": {"id": [name], "name": name}} for name in names],
        "edges": [
            {"source": source, "target": target, **({"conditional": True} if conditional else {})}
            for (source, target), conditional in edges.items()
        ],
    }


async def all_assistants(caller: Caller) -> list[Assistant]:
    """Returns the assistants, by name."""
    listed = await caller.call(caller.stubs.agents.ListAgents, agents_pb2.ListAgentsRequest())
    return [Assistant(each) for each in listed.agents]


async def find_assistant(caller: Caller, given: str) -> Assistant:
    """Returns the assistant of a name or an id, with its schemas and outline. Raises NotFound."""
    name = given
    if _is_id(given):
        ids = {assistant_id_of(each.name): each.name for each in await all_assistants(caller)}
        name = ids.get(str(uuid.UUID(given)), "")
    listed = (
        await caller.call(caller.stubs.agents.ListAgents, agents_pb2.ListAgentsRequest(name=name))
        if 0 < len(name) <= _LONGEST_NAME
        else agents_pb2.ListAgentsResponse()
    )
    if not listed.agents:
        raise NotFound(
            f"there is no assistant {given[:_LONGEST_NAME]!r}; POST /assistants/search lists those there are"
        )
    return Assistant(listed.agents[0])


def agent_of(given: runs_pb2.RunInput) -> str:
    """Returns the agent that an input is for."""
    field = given.WhichOneof("agent") or ""
    return given.graph.agent if field == _HOSTED else field


_HOSTED = "graph"
_LONGEST_NAME = 64


def _is_id(given: str) -> bool:
    try:
        uuid.UUID(given)
    except ValueError:
        return False
    return True
