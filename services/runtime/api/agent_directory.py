"""All agents that callers may ask for: those of this replica, and hosted graphs that only other pools have loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from signalbox.v1 import agent_outline_pb2, agents_pb2, runs_pb2

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.telemetry.logs import get_logger
from services.runtime.agents.offered import Offered
from services.runtime.agents.policies import BUDGET
from services.runtime.agents.registry import definitions
from services.runtime.agents.run_key import RunKey
from services.runtime.api.outline_wire import outline_proto
from services.runtime.api.policy_wire import budget_of, policy_proto
from services.runtime.api.wire import struct_proto
from services.runtime.engine.offers import Offer, Offers, name_of
from services.runtime.hosted.definition import HostedAgent, HostedDefinition, check_input, title_of
from services.runtime.hosted.schemas import ANYTHING, Schemas, plain
from services.runtime.routing.state import Budget
from services.runtime.settings import RUNTIME

log = get_logger()
SCHEMAS: Final = ("input_schema", "context_schema", "output_schema")
# What a list has of one agent's schemas at the most, and what is kept of one schema.
MOST_LISTED_BYTES: Final = 16_384
MOST_SCHEMA_BYTES: Final = 262_144


@dataclass(frozen=True)
class AskedAgent:
    """What it takes to create a run of an agent. `waiting_for` is what its runs wait for from the beginning, if any."""

    graph_version: str
    budget: Budget
    budget_origins: Mapping[str, str]
    check_input: Callable[[runs_pb2.RunInput], None]
    title_of: Callable[[runs_pb2.RunInput], str]
    is_hosted: bool
    run_key: Callable[[Any], RunKey] | None = None
    waiting_for: str = ""


class AgentDirectory:
    """The agents by name. What this replica has, it knows best; of others it says what they have written down."""

    def __init__(
        self,
        agents: Mapping[str, Offered],
        offers: Offers,
        pool_name: str = RUNTIME,
        is_here: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`is_here`: whether the runs of one of `agents` are still this replica's."""
        self.here = agents
        self._is_here = is_here
        self._offers = offers
        self._pool_name = pool_name

    async def listed(self, name: str = "") -> list[agents_pb2.Agent]:
        """Returns the agents, by name, or the one of a name; large schemas only in the latter case."""
        here = [self.here[each] for each in self.here if name in ("", each) and self._is_here(each)]
        found = {each.definition.name: listed_proto(each, self._pool_name) for each in here}
        offers = [] if name and found else await self._elsewhere(name)
        found |= {each.name: _listed(each) for each in offers}
        for each in found.values():
            if name:
                each.outline.CopyFrom(self._outline_of(each.name, offers))
            else:
                _without_large_schemas(each)
        return [found[each] for each in sorted(found)]

    def _outline_of(self, name: str, offers: Sequence[Offer]) -> agent_outline_pb2.AgentOutline:
        if (agent := self.here.get(name)) and self._is_here(name):
            return outline_proto(agent.in_force, agent.limits.policy)
        return agent_outline_pb2.AgentOutline.FromString(next(each.outline for each in offers if each.name == name))

    async def asked(self, name: str) -> AskedAgent:
        """Returns an agent to create a run of. Raises InvalidRequest."""
        if (agent := self.here.get(name)) and self._is_here(name):
            origins = {each.removeprefix(f"{BUDGET}."): origin for each, origin in agent.limits.origins.items()}
            definition = agent.definition
            return AskedAgent(
                agent.outline.version,
                agent.limits.budget,
                origins,
                definition.check_input,
                definition.title_of,
                is_hosted=isinstance(agent, HostedAgent),
                run_key=definition.run_key,
            )
        offer = await self._offers.find(name) if name and name not in definitions() else None
        if offer is None:
            known = ", ".join(each.name for each in await self.listed())
            violations = [FieldViolation("input.agent", f"one of: {known}")]
            raise InvalidRequest("the input names no agent that runs here", violations=violations)
        return _asked(offer)

    async def check(self, name: str) -> None:
        """Raises InvalidRequest where a request to look at an agent's past names none that is known."""
        if not name or name in self.here or name in definitions():
            return
        known = {*definitions(), *self.here, *await self._offers.names()}
        if name in known:
            return
        violation = FieldViolation("agent", f"one of: {', '.join(sorted(known))}")
        raise InvalidRequest(f"there is no agent {name!r}", violations=[violation])

    async def outline(self, name: str) -> agent_outline_pb2.AgentOutline | None:
        """Returns the graph of an agent that another pool has."""
        offer = None if name in definitions() else await self._offers.find(name)
        return agent_outline_pb2.AgentOutline.FromString(offer.outline) if offer else None

    async def _elsewhere(self, name: str) -> list[Offer]:
        if name:
            offer = await self._offers.find(name)
            return [offer] if offer else []
        return [each for each in await self._offers.all() if each.name not in self.here or not self._is_here(each.name)]


def offers_of(agents: Mapping[str, Offered], pool_name: str) -> list[Offer]:
    """Returns what a pool writes down of its hosted graphs."""
    return [
        Offer(
            name,
            agent.outline.version,
            pool_name,
            _kept(listed_proto(agent, pool_name)).SerializeToString(),
            outline_proto(agent.in_force, agent.limits.policy).SerializeToString(),
        )
        for name, agent in agents.items()
        if isinstance(agent, HostedAgent)
    ]


def listed_proto(agent: Offered, pool_name: str) -> agents_pb2.Agent:
    """Returns an agent of this replica, as it is listed."""
    definition, graph = agent.definition, agent.outline
    listed = agents_pb2.Agent(
        name=definition.name,
        description=definition.description,
        input_type=definition.input.DESCRIPTOR.full_name,
        output_type=definition.output.DESCRIPTOR.full_name,
        graph_version=graph.version,
        routers=[router.name for router in graph.routers],
        tools=sorted(graph.tools),
        policy=policy_proto(agent.limits),
        pool=pool_name,
    )
    if isinstance(definition, HostedDefinition):
        schemas = definition.schemas
        for name, schema in zip(SCHEMAS, (schemas.input, schemas.context, schemas.output), strict=True):
            if schema is not None:
                getattr(listed, name).CopyFrom(struct_proto(schema))
    return listed


def _kept(agent: agents_pb2.Agent) -> agents_pb2.Agent:
    """Bounds what is written down of an agent: by a schema that is larger, the graph itself is the judge."""
    for name in SCHEMAS:
        if getattr(agent, name).ByteSize() > MOST_SCHEMA_BYTES:
            log.warning("a schema is too large to be checked by other pools", agent=agent.name, schema=name)
            getattr(agent, name).CopyFrom(struct_proto(ANYTHING))
    return agent


def _listed(offer: Offer) -> agents_pb2.Agent:
    agent = agents_pb2.Agent.FromString(offer.listed)
    if offer.away_since is not None:
        agent.away_since.FromDatetime(offer.away_since)
    return agent


def _without_large_schemas(agent: agents_pb2.Agent) -> None:
    if sum(getattr(agent, name).ByteSize() for name in SCHEMAS) > MOST_LISTED_BYTES:
        for name in SCHEMAS:
            agent.ClearField(name)
        agent.schemas_omitted = True


def _asked(offer: Offer) -> AskedAgent:
    agent = agents_pb2.Agent.FromString(offer.listed)
    given, context, output = (plain(getattr(agent, name)) if agent.HasField(name) else None for name in SCHEMAS)
    schemas = Schemas(given or ANYTHING, context, output or ANYTHING)
    budget, origins = budget_of(agent.policy)
    return AskedAgent(
        offer.graph_version,
        budget,
        origins,
        partial(check_input, schemas),
        title_of,
        is_hosted=True,
        waiting_for=name_of(offer.pool) if offer.away_since else "",
    )
