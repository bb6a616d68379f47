"""Pages of runs: those that fit, and one as it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

from signalbox.v1 import runs_pb2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from services.console.agent_names import agent_names
from services.console.errors import BadRequest, NoPage
from services.console.explanation_page.page import shown
from services.console.filters import Filters
from services.console.following import RunFollower
from services.console.gateway import Gateway
from services.console.run_names import RunNotNamed, may_name_run, run_named, short_ids
from services.console.run_search import FoundRuns, RunSearch
from services.console.settings import ConsoleSettings
from services.console.showing import page
from services.kit.outcome import Outcome
from services.kit.text.moods import mood
from services.kit.wire.event_kinds import ENDED_RUN_STATES

FIELDS = ("text", "agent", "state", "outcome", "rule", "caller", "thread", "labels", "since", "until", "page", "after")
# The gateway's names of the fields, where they are others.
NAMES = {
    "subject": "caller",
    "thread_id": "thread",
    "since_time": "since",
    "until_time": "until",
    "page_token": "page",
}
# In the setting that says where traces are looked at.
TRACE_ID = "{trace_id}"
STATES = tuple(name.removeprefix("RUN_STATE_").lower() for name, value in runs_pb2.RunState.items() if value)


class RunPages:
    """The list of runs, and the page of each."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings, closing: asyncio.Event) -> None:
        self._gateway = gateway
        self._search = RunSearch(gateway, settings)
        self._trace_url = settings.trace_url
        self._follower = RunFollower(gateway, settings, closing)

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (
            Route("/", self.first),
            Route("/runs", self.list),
            Route("/runs/{run_id}", self.run),
            Route("/runs/{run_id}/events", self.events),
        )

    async def first(self, _request: Request) -> Response:
        """Leads to the runs."""
        return RedirectResponse("/runs", status_code=303)

    async def list(self, request: Request) -> Response:
        """Lists the runs that fit, newest first."""
        filters = Filters.of(request.query_params, FIELDS)
        wanted = runs_pb2.ListRunsRequest(
            agent=filters["agent"],
            state=filters.state("state"),
            outcome=filters.outcome("outcome"),
            thread_id=filters["thread"],
            subject=filters["caller"],
            since_time=filters.time("since"),
            until_time=filters.time("until"),
            labels=filters.labels("labels"),
            text=filters["text"],
            page_token=filters["page"],
        )
        if named := await self._named(filters):
            return RedirectResponse(f"/runs/{named}", status_code=303)
        found = FoundRuns((), "")
        agents = await agent_names(self._gateway)
        if not filters.problems:
            try:
                found = await self._find(wanted, filters)
            except BadRequest as error:
                filters.refused(error, NAMES)
        more = filters.address("/runs", page=found.page_token, after=found.last_run_id) if found.page_token else ""
        return page(
            "runs.html.j2",
            "runs",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=agents,
            states=STATES,
            outcomes=tuple(Outcome),
            found=found,
            short_ids=short_ids([run.run_id for run in found.runs]),
            moods={run.run_id: mood(run) for run in found.runs},
            more=more,
            is_filtered=any(filters.texts.values()),
        )

    async def run(self, request: Request) -> Response:
        """Shows why a run goes as it does, and goes along with one that has not ended."""
        name = request.path_params["run_id"]
        try:
            run_id = await run_named(name, self._list_runs)
        except RunNotNamed as error:
            raise NoPage(f"{str(error)[0].upper()}{str(error)[1:]}.") from error
        if run_id != name:
            return RedirectResponse(f"/runs/{run_id}", status_code=303)
        explained = await self._gateway.explained(run_id)
        is_live = explained.run.state not in ENDED_RUN_STATES
        trace_url = self._trace_url.replace(TRACE_ID, quote(explained.run.trace_id)) if explained.run.trace_id else ""
        return page("run.html.j2", "runs", **shown(explained), has_console=True, is_live=is_live, trace_url=trace_url)

    async def events(self, request: Request) -> Response:
        """Tells a browser when a run has moved on, for as long as it listens."""
        told = self._follower.follow(request.path_params["run_id"])
        return StreamingResponse(told, media_type="text/event-stream")

    async def _named(self, filters: Filters) -> str:
        """Returns the run that the words name, where these are all that is asked for; empty where they name none."""
        text = filters["text"]
        if not may_name_run(text) or sum(map(bool, filters.texts.values())) > 1 or filters.problems:
            return ""
        try:
            return await run_named(text, self._list_runs)
        except RunNotNamed:
            return ""  # they may be words of a title as well

    async def _list_runs(self, request: runs_pb2.ListRunsRequest) -> runs_pb2.ListRunsResponse:
        return await self._gateway.call(self._gateway.runs.ListRuns, request)

    async def _find(self, wanted: runs_pb2.ListRunsRequest, filters: Filters) -> FoundRuns:
        if filters["rule"]:
            return await self._search.by_rule(wanted, filters["rule"], filters["after"])
        return await self._search.find(wanted)
