"""Threads: conversations of a caller, which begin with their first run."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from signalbox.v1 import runs_pb2, threads_pb2
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.assistants import assistant_id_of
from services.http_api.errors import Conflict, Invalid, NotFound
from services.http_api.forks import asking_of, fork_of, forked
from services.http_api.gateway import Caller, Gateway
from services.http_api.interrupts import interrupts_of
from services.http_api.json_bodies import BodyReader, Json, struct_of
from services.http_api.run_request import END_NODE, Body, Checkpoint, read_body
from services.http_api.run_stream import ended, problem_of
from services.http_api.thread_states import MOST_STATES, ThreadStates, moment, place_of

MOST_THREADS: Final = 100
# Of a search: pages of runs that it looks at, newest first.
MOST_PAGES: Final = 10
RUNS_PAGE: Final = 500
READ_AT_ONCE: Final = 8
IDLE, BUSY, INTERRUPTED, FAILED = "idle", "busy", "interrupted", "error"
_STATUS: Final[Mapping[int, str]] = {
    runs_pb2.RUN_STATE_PENDING: BUSY,
    runs_pb2.RUN_STATE_RUNNING: BUSY,
    runs_pb2.RUN_STATE_AWAITING_INPUT: INTERRUPTED,
    runs_pb2.RUN_STATE_FAILED: FAILED,
}
# What threads of an agent are found by: all that is kept of their metadata but for labels of their runs.
_AGENT_KEYS: Final = ("graph_id", "assistant_id")
ThreadId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]


class ThreadBody(Body):
    """A thread to create."""

    thread_id: ThreadId | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    ttl: Any = None
    supersteps: Any = None


class SearchBody(Body):
    """What threads to find."""

    limit: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 10
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    ids: Annotated[list[ThreadId], Field(max_length=MOST_THREADS)] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    values: dict[str, Any] = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    sort_by: Literal["created_at", "updated_at", "state_updated_at", "thread_id", "status"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: dict[str, Any] = Field(default_factory=dict)


class HistoryBody(Body):
    """What states of a thread to return."""

    limit: Annotated[int, Field(ge=1, le=MOST_STATES)] = 10
    before: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    select: list[str] | None = None


class StateUpdateBody(Body):
    """What to change in a state, as if the node `as_node` had returned it."""

    values: dict[str, Any] | None = None
    as_node: Annotated[str, Field(max_length=128)] = ""
    checkpoint: Checkpoint | None = None
    checkpoint_id: str = ""


class StateBody(Body):
    """The state at a checkpoint."""

    checkpoint: Checkpoint
    subgraphs: bool = False
    select: list[str] | None = None


@dataclass
class ThreadSummary:
    """A thread, by its runs that have been looked at, newest first."""

    thread_id: str
    runs: list[runs_pb2.Run] = field(default_factory=list)
    created_at: str = ""

    @property
    def status(self) -> str:
        """What it does: what its latest run does."""
        states = [run.state for run in self.runs]
        if BUSY in (found := [_STATUS.get(state, IDLE) for state in states]):
            return BUSY
        return INTERRUPTED if INTERRUPTED in found else (found[0] if found else IDLE)

    @property
    def metadata(self) -> dict[str, Any]:
        """Its latest run's agent and labels."""
        if not self.runs:
            return {}
        latest = self.runs[0]
        return {**latest.labels, "graph_id": latest.agent, "assistant_id": assistant_id_of(latest.agent)}

    def document(self, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns it as the protocol has it."""
        asking = [run for run in self.runs if run.HasField("input_request")]
        updated = (
            moment(self.runs[0].end_time if self.runs[0].HasField("end_time") else self.runs[0].create_time)
            if (self.runs)
            else now()
        )
        return {
            "thread_id": self.thread_id,
            "created_at": self.created_at or (moment(self.runs[-1].create_time) if self.runs else updated),
            "updated_at": updated,
            "state_updated_at": updated,
            "metadata": self.metadata,
            "config": {},
            "status": self.status,
            "values": values,
            "interrupts": {run.input_request.input_request_id: interrupts_of(run.input_request) for run in asking},
        }


class ThreadRoutes:
    """Handles what is asked of threads."""

    def __init__(self, gateway: Gateway, bodies: BodyReader) -> None:
        self._gateway = gateway
        self._bodies = bodies

    async def create(self, request: Request) -> Response:
        """Names a thread. It is there once it has a run; nothing of it is kept before."""
        caller = self._gateway.caller(request)
        body = read_body(ThreadBody, await self._bodies.read(request))
        if body.ttl is not None:
            raise Invalid("ttl: is not offered; retention is the operator's to set")
        if body.supersteps:
            raise Invalid("supersteps: is not offered; a thread begins with a run")
        thread_id = body.thread_id or str(uuid.uuid4())
        summary = await summary_of(caller, thread_id)
        if summary.runs and body.if_exists == "raise":
            raise Conflict(f"there is a thread {thread_id!r} already", reason="THREAD_EXISTS")
        return Json(summary.document(None))

    async def get(self, request: Request) -> Response:
        """Returns a thread; one without runs is empty, whatever its id."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        summary = await summary_of(caller, thread_id)
        head = await ThreadStates(caller, thread_id).head(summary.runs)
        return Json(summary.document(head["values"] or None))

    async def delete(self, request: Request) -> Response:
        """Deletes a thread with its runs."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        try:
            await caller.call(caller.stubs.threads.DeleteThread, threads_pb2.DeleteThreadRequest(thread_id=thread_id))
        except NotFound:  # it never had a run, or a first try was told of nowhere
            return Response(status_code=204)
        return Response(status_code=204)

    async def copy(self, request: Request) -> Response:
        """Makes a thread with the same history."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        ended = [run for run in await ThreadStates(caller, thread_id).runs() if run.HasField("end_time")]
        if not ended:
            raise NotFound(f"thread {thread_id!r} has no run that has ended, so that there is nothing to copy")
        fork = threads_pb2.ForkThreadRequest(thread_id=thread_id, run_id=ended[0].run_id)
        made = await caller.call(caller.stubs.threads.ForkThread, fork)
        return Json((await summary_of(caller, made.thread.thread_id)).document(None))

    async def search(self, request: Request) -> Response:
        """Finds threads by their runs, newest first."""
        caller = self._gateway.caller(request)
        body = read_body(SearchBody, await self._bodies.read(request))
        found = (await self._found(caller, body))[body.offset : body.offset + body.limit]
        wants_values = body.select is None or "values" in body.select
        limit = asyncio.Semaphore(READ_AT_ONCE)

        async def document(summary: ThreadSummary) -> dict[str, Any]:
            async with limit:
                head = await ThreadStates(caller, summary.thread_id).head(summary.runs) if wants_values else None
            made = summary.document(head["values"] if head else None)
            return {name: each for name, each in made.items() if body.select is None or name in body.select}

        return Json(await asyncio.gather(*map(document, found)))

    async def count(self, request: Request) -> Response:
        """Counts threads, as far as a search looks."""
        caller = self._gateway.caller(request)
        body = read_body(SearchBody, await self._bodies.read(request))
        return Json(len(await self._found(caller, body)))

    async def state(self, request: Request) -> Response:
        """Returns the state that the next run begins with, or that at a checkpoint."""
        caller, states = self._states(request)
        del caller
        checkpoint_id = request.path_params.get("checkpoint_id")
        return Json(await (states.at(place_of(checkpoint_id)) if checkpoint_id else states.head()))

    async def state_at(self, request: Request) -> Response:
        """Returns the state at a checkpoint."""
        _, states = self._states(request)
        body = read_body(StateBody, await self._bodies.read(request))
        _outside(body.checkpoint)
        checkpoint_id = body.checkpoint.checkpoint_id
        return Json(await (states.at(place_of(checkpoint_id)) if checkpoint_id else states.head()))

    async def update_state(self, request: Request) -> Response:
        """Changes a state, as a run of its own that ends with that, and returns the checkpoint."""
        caller, states = self._states(request)
        body = read_body(StateUpdateBody, await self._bodies.read(request))
        if body.checkpoint:
            _outside(body.checkpoint)
        if body.values is None and body.as_node != END_NODE:
            raise Invalid(f"values: are missing; without them only {END_NODE!r} is an `as_node`")
        runs = await states.runs()
        given = (body.checkpoint.checkpoint_id if body.checkpoint else "") or body.checkpoint_id
        fork = await fork_of(states, place_of(given) if given else await states.head_place(runs))
        if not any(run.run_id == fork.run_id for run in runs):
            raise NotFound("the thread has no such checkpoint")
        fork.only_state, fork.as_node = True, body.as_node
        if body.values is not None:
            fork.update.CopyFrom(struct_of(body.values))
        made = await forked(caller, fork, asking_of(runs))
        if problem := problem_of(await ended(caller, made.run_id)):
            raise Conflict(problem["message"], reason=problem["error"])
        checkpoint = (await states.head([made]))["checkpoint"]
        return Json({"checkpoint": checkpoint, "configurable": checkpoint})

    async def history(self, request: Request) -> Response:
        """Returns states, newest first."""
        _, states = self._states(request)
        document = await self._bodies.read(request)
        query = {name: request.query_params[name] for name in ("limit", "before") if name in request.query_params}
        body = read_body(HistoryBody, document if document is not None else query)
        if body.metadata:
            raise Invalid("metadata: states are not searched by it")
        if body.checkpoint and body.checkpoint.checkpoint_ns:
            return Json([])  # states of graphs inside nodes are not told
        before = place_of(_checkpoint_id(body.before)) if body.before else None
        return Json(await states.history(body.limit, before=before))

    def _states(self, request: Request) -> tuple[Caller, ThreadStates]:
        caller = self._gateway.caller(request)
        return caller, ThreadStates(caller, thread_id_of(request))

    async def _found(self, caller: Caller, body: SearchBody) -> list[ThreadSummary]:
        if body.values or body.extract:
            raise Invalid("values and extract are not offered: threads are found by metadata, status and ids")
        found = [
            each
            for each in await summaries(caller, body.metadata)
            if (body.ids is None or each.thread_id in body.ids) and body.status in (None, each.status)
        ]
        if body.sort_by in ("thread_id", "status", "created_at"):
            found.sort(key=lambda each: str(each.document(None)[body.sort_by]), reverse=True)
        return found if body.sort_order == "desc" else found[::-1]


async def summary_of(caller: Caller, thread_id: str) -> ThreadSummary:
    """Returns a thread; without runs it is one that has had none."""
    request = threads_pb2.GetThreadRequest(thread_id=thread_id)
    try:
        found = await caller.call(caller.stubs.threads.GetThread, request)
    except NotFound:
        return ThreadSummary(thread_id)
    return ThreadSummary(thread_id, list(found.runs), moment(found.thread.create_time))


async def summaries(caller: Caller, metadata: Mapping[str, Any]) -> list[ThreadSummary]:
    """Returns the caller's threads whose latest runs have an agent and labels, newest first.

    It looks at so many of the newest runs; older threads are not found. Raises Invalid.
    """
    labels = {name: str(value) for name, value in metadata.items() if name not in _AGENT_KEYS}
    request = runs_pb2.ListRunsRequest(subject=caller.subject, page_size=RUNS_PAGE, labels=labels)
    graph_id = metadata.get("graph_id")
    if isinstance(graph_id, str) and not labels:
        request.agent = graph_id
    found: dict[str, ThreadSummary] = {}
    for _ in range(MOST_PAGES):
        try:
            page = await caller.call(caller.stubs.runs.ListRuns, request)
        except Invalid:
            if request.agent:  # there is none of that name
                return []
            raise
        for run in page.runs:
            if run.thread_id:
                found.setdefault(run.thread_id, ThreadSummary(run.thread_id)).runs.append(run)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    wanted = {name: metadata[name] for name in _AGENT_KEYS if name in metadata}
    return [each for each in found.values() if wanted.items() <= each.metadata.items()]


def thread_id_of(request: Request) -> str:
    """Returns the thread that a path names. What an id may be, the gateway says."""
    return str(request.path_params["thread_id"])


def now() -> str:
    """Returns this moment, as the protocol has it."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")  # noqa: UP017


def _checkpoint_id(given: Any) -> str:
    if isinstance(given, Mapping):
        inner = given.get("configurable")
        given = (inner if isinstance(inner, Mapping) else given).get("checkpoint_id")
    if not isinstance(given, str):
        raise Invalid("before: is to be a checkpoint")
    return given


def _outside(checkpoint: Checkpoint) -> None:
    if checkpoint.checkpoint_ns:
        raise NotFound("states of graphs inside nodes are not told")
