"""Pages of conversations: those there are, and one as what was said in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from signalbox.v1 import runs_pb2, threads_pb2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.errors import BadRequest, NotFound
from services.console.explanation_page.result import Block, Messages, Result, Words, result_of
from services.console.filters import Filters
from services.console.gateway import Gateway
from services.console.run_search import read_runs
from services.console.settings import ConsoleSettings
from services.console.showing import page
from services.kit.text.moods import mood
from services.kit.wire.event_kinds import ENDED_RUN_STATES

FIELDS = ("page",)
NAMES = {"page_token": "page"}
# The latest turns of a conversation: each is a run that is read.
TURNS = 20


@dataclass(frozen=True)
class Turn:
    """What was asked in a run, and the block of its result that answers; None while there is none."""

    run: runs_pb2.Run
    mood: str
    answer: Block | None


class ThreadPages:
    """The list of conversations, and the page of each."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (
            Route("/threads", self.list),
            Route("/threads/{thread_id}", self.thread),
        )

    async def list(self, request: Request) -> Response:
        """Lists the caller's conversations, newest first."""
        filters = Filters.of(request.query_params, FIELDS)
        wanted = threads_pb2.ListThreadsRequest(page_token=filters["page"], page_size=self._settings.page_size)
        found = threads_pb2.ListThreadsResponse()
        if not filters.problems:
            try:
                found = await self._gateway.call(self._gateway.threads.ListThreads, wanted)
            except BadRequest as error:
                filters.refused(error, NAMES)
        more = filters.address("/threads", page=found.next_page_token) if found.next_page_token else ""
        status = 400 if filters.problems else 200
        return page("threads.html.j2", "threads", status=status, filters=filters, threads=found.threads, more=more)

    async def thread(self, request: Request) -> Response:
        """Shows what was said in a conversation, and goes along with its active run."""
        thread_id = request.path_params["thread_id"]
        asked = threads_pb2.GetThreadRequest(thread_id=thread_id)
        try:
            found = await self._gateway.call(self._gateway.threads.GetThread, asked)
        except NotFound:
            # Another caller's, whose runs an operator may see all the same.
            return RedirectResponse(f"/runs?{urlencode({'thread': thread_id})}", status_code=303)
        run_ids = [run.run_id for run in found.runs[:TURNS]]
        runs = await read_runs(self._gateway, run_ids, at_once=self._settings.runs_read_at_once)
        turns = [_turn(run) for run in reversed(runs) if run is not None]
        active = next((turn.run for turn in reversed(turns) if turn.run.state not in ENDED_RUN_STATES), None)
        return page(
            "thread.html.j2",
            "threads",
            thread=found.thread,
            turns=turns,
            left_out=max(0, found.thread.run_count - len(turns)),
            active=active,
        )


def _turn(run: runs_pb2.Run) -> Turn:
    return Turn(run, mood(run), answer_of(result_of(run)))


def answer_of(result: Result) -> Block | None:
    """Returns what of a result answers its caller: its leading words, last message, first block, or JSON."""
    leading = next((each for each in result.blocks if isinstance(each, Words) and each.leads), None)
    if leading is not None:
        return leading
    if not result.blocks:
        return result.json if result.json.text else None
    first = result.blocks[0]
    return Messages("", first.messages[-1:]) if isinstance(first, Messages) else first
