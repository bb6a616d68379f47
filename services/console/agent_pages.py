"""Pages of agents: the routes that their runs take, and the policies that these are decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import agents_pb2, maintenance_pb2, runs_pb2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.console.agent_names import list_agents
from services.console.agent_routes import agent_routes, outline_of
from services.console.errors import NotAllowed, NotOffered
from services.console.filters import Filters
from services.console.gateway import Gateway
from services.console.periods import PERIODS, Period
from services.console.settings import ConsoleSettings
from services.console.shadows import Shadow, Shadows, Version, changed_limits, plain_text
from services.console.showing import page
from services.console.tables_of_agent import DecidedNode, ReadLimit, decided_nodes, read_limits

FIELDS = ("agent", "period")
TRIED = "limit."
CHANGES_SHOWN = 20


class AgentPages:
    """Routes and policies."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._shadows = Shadows(gateway, settings)

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (Route("/routes", self.traffic), Route("/policies", self.policies))

    async def traffic(self, request: Request) -> Response:
        """Draws an agent's graph with the traffic of each edge."""
        filters = Filters.of(request.query_params, FIELDS)
        agents = await list_agents(self._gateway)
        agent, period = _chosen(filters, agents)
        counted, drawn = runs_pb2.CountDecisionsResponse(), None
        decided: Sequence[DecidedNode] = ()
        limits: Sequence[ReadLimit] = ()
        changes: Sequence[maintenance_pb2.LimitChange] | None = ()
        if agent is not None and not filters.problems:
            wanted = runs_pb2.CountDecisionsRequest(agent=agent.name, since_time=_since(period))
            counted = await self._gateway.call(self._gateway.runs.CountDecisions, wanted)
            outline = await outline_of(self._gateway, agent.name)
            drawn = agent_routes(outline, counted)
            if outline is not None:
                decided, limits = decided_nodes(outline), read_limits(outline, agent)
            changes = await self._changes(agent.name)
        return page(
            "routes.html.j2",
            "routes",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=[each.name for each in agents],
            agent=agent,
            period=period,
            periods=PERIODS,
            counted=counted,
            drawn=drawn,
            decided=decided,
            limits=limits,
            changes=changes,
        )

    async def _changes(self, agent: str) -> Sequence[maintenance_pb2.LimitChange] | None:
        """Returns the newest changes of an agent's limits; None where the caller may not see them."""
        wanted = maintenance_pb2.ListLimitChangesRequest(agent=agent, page_size=CHANGES_SHOWN)
        try:
            return (await self._gateway.call(self._gateway.maintenance.ListLimitChanges, wanted)).changes
        except NotAllowed:
            return None
        except NotOffered:
            return ()

    async def policies(self, request: Request) -> Response:
        """Shows the versions of an agent's policy, what each would have decided, and limits to try."""
        agents = await list_agents(self._gateway)
        # What may be tried are the limits of the agent, whichever that is.
        names = {f"{TRIED}{limit.name}" for each in agents for limit in each.policy.limits}
        filters = Filters.of(request.query_params, (*FIELDS, *sorted(names)))
        agent, period = _chosen(filters, agents)
        since = _since(period)
        versions: Sequence[Version] = ()
        shadows: Mapping[str, Sequence[Shadow]] = {}
        tried: Mapping[str, str] = {}
        if agent is not None and not filters.problems:
            versions = await self._shadows.versions(agent.name, since)
            tried = _tried(filters, agent)
            shadows = await self._cast(agent, versions, tried, since)
        refused = next((each.error for cast in shadows.values() for each in cast if each.error), None)
        return page(
            "policies.html.j2",
            "policies",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=[each.name for each in agents],
            agent=agent,
            period=period,
            periods=PERIODS,
            versions=versions,
            changed={
                each.policy_version: changed_limits(each.limits, agent.policy)
                for each in versions
                if agent is not None and each.limits is not None
            },
            shadows=shadows,
            is_refused=isinstance(refused, NotAllowed),
            tried=tried,
            plain=plain_text,
        )

    async def _cast(
        self, agent: agents_pb2.Agent, versions: Sequence[Version], tried: Mapping[str, str], since: Timestamp
    ) -> Mapping[str, Sequence[Shadow]]:
        """Returns shadows by version, those of limits that are tried under an empty one; for operators only."""
        wanted = {
            each.policy_version: changed_limits(each.limits, agent.policy)
            for each in versions
            if each.limits is not None and each.policy_version != agent.policy.version
        }
        if tried:
            wanted[""] = tried
        shadows: dict[str, Sequence[Shadow]] = {}
        for version, limits in wanted.items():
            shadows[version] = await self._shadows.cast(agent, limits, since)
            if any(isinstance(each.error, NotAllowed) for each in shadows[version]):
                break  # nor are the others
        return shadows


def _chosen(filters: Filters, agents: Sequence[agents_pb2.Agent]) -> tuple[agents_pb2.Agent | None, Period]:
    by_name = {each.name: each for each in agents}
    name = filters.choice("agent", by_name, next(iter(by_name), ""))
    return by_name.get(name), PERIODS[filters.choice("period", PERIODS, "day")]


def _since(period: Period) -> Timestamp:
    return Timestamp(seconds=period.begin())


def _tried(filters: Filters, agent: agents_pb2.Agent) -> Mapping[str, str]:
    """Returns the limits that are asked for and are others than those in force."""
    in_force = {limit.name: plain_text(limit.value) for limit in agent.policy.limits}
    given = {name.removeprefix(TRIED): text for name, text in filters.texts.items() if name.startswith(TRIED) and text}
    return {name: text for name, text in given.items() if in_force.get(name, text) != text}
