"""Pages of decisions: those of the ledger that fit, and how often each rule fires over time."""

from __future__ import annotations

from collections.abc import Sequence

from signalbox.v1 import runs_pb2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.console.agent_names import agent_names
from services.console.errors import BadRequest
from services.console.filters import Filters
from services.console.gateway import Gateway
from services.console.periods import HOUR_S, PERIODS, Period
from services.console.rule_history import rule_histories
from services.console.settings import ConsoleSettings
from services.console.showing import page

# What the end of a run is called in the ledger, and by people.
END, THE_END = "__end__", ("end", "the end")
FIELDS = ("agent", "router", "rule", "destination", "caller", "correlation_id", "since", "until", "page")
NAMES = {"subject": "caller", "since_time": "since", "until_time": "until", "page_token": "page"}


class DecisionPages:
    """The ledger, and the rules of an agent."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (Route("/decisions", self.list), Route("/rules", self.rules))

    async def list(self, request: Request) -> Response:
        """Lists the decisions that fit, those of the newest runs first."""
        filters = Filters.of(request.query_params, FIELDS)
        wanted = runs_pb2.ListDecisionsRequest(
            agent=filters["agent"],
            router=filters["router"],
            rule=filters["rule"],
            destination=END if filters["destination"] in THE_END else filters["destination"],
            subject=filters["caller"],
            correlation_id=filters["correlation_id"],
            since_time=filters.time("since"),
            until_time=filters.time("until"),
            page_token=filters["page"],
            page_size=self._settings.page_size,
        )
        found = runs_pb2.ListDecisionsResponse()
        agents = await agent_names(self._gateway)
        if not filters.problems:
            try:
                found = await self._gateway.call(self._gateway.runs.ListDecisions, wanted)
            except BadRequest as error:
                filters.refused(error, NAMES)
        more = filters.address("/decisions", page=found.next_page_token) if found.next_page_token else ""
        return page(
            "decisions.html.j2",
            "decisions",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=agents,
            decisions=found.decisions,
            more=more,
            is_filtered=any(filters.texts.values()),
        )

    async def rules(self, request: Request) -> Response:
        """Shows how often each rule of an agent fires over time, and which never do."""
        filters = Filters.of(request.query_params, ("agent", "period"))
        agents = await agent_names(self._gateway)
        agent = filters.choice("agent", agents, agents[0] if agents else "")
        period = PERIODS[filters.choice("period", PERIODS, "day")]
        counted, begin = runs_pb2.CountDecisionsResponse(), period.begin()
        if agent and not filters.problems:
            counted = await self._counted(agent, period, begin)
        return page(
            "rules.html.j2",
            "rules",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=agents,
            agent=agent,
            period=period,
            periods=PERIODS,
            counted=counted,
            routers=rule_histories(counted, period, begin),
        )

    async def _counted(self, agent: str, period: Period, begin: int) -> runs_pb2.CountDecisionsResponse:
        request = runs_pb2.CountDecisionsRequest(agent=agent, interval_hours=period.interval_s // HOUR_S)
        request.since_time.FromSeconds(begin)
        return await self._gateway.call(self._gateway.runs.CountDecisions, request)
