"""The page of metrics: what became of the runs of the last hours that the caller may see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from signalbox.v1 import runs_pb2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.console.agent_names import agent_names
from services.console.filters import Filters
from services.console.gateway import Gateway
from services.console.periods import HOURS, PERIODS
from services.console.run_metrics import run_metrics
from services.console.settings import ConsoleSettings
from services.console.showing import page


class MetricsPages:
    """Metrics of runs, drawn from what the platform counts."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (Route("/metrics", self.metrics),)

    async def metrics(self, request: Request) -> Response:
        """Shows runs, times, tokens and costs of the last hours, of one agent or of all."""
        filters = Filters.of(request.query_params, ("agent", "period"))
        agents = await agent_names(self._gateway)
        agent = filters.choice("agent", agents, "")
        periods = {HOURS.name: HOURS, **PERIODS}
        period = periods[filters.choice("period", periods, HOURS.name)]
        counted, begin = runs_pb2.CountRunsResponse(), period.begin()
        if not filters.problems:
            wanted = runs_pb2.CountRunsRequest(agent=agent, interval_minutes=period.interval_s // 60, with_costs=True)
            wanted.since_time.FromSeconds(begin)
            counted = await self._gateway.call(self._gateway.runs.CountRuns, wanted)
        return page(
            "metrics.html.j2",
            "metrics",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=agents,
            agent=agent,
            period=period,
            periods=periods,
            since=_as_filter(begin),
            counted=counted,
            metrics=run_metrics(counted, period, begin),
            dashboard_url=self._settings.dashboard_url,
        )


def _as_filter(moment_s: int) -> str:
    """Returns a time as lists of runs have it in their fields: in this machine's zone."""
    return datetime.fromtimestamp(moment_s, UTC).astimezone().replace(tzinfo=None).isoformat(timespec="minutes")
