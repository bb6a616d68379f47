"""Threads: conversations of a caller, which begin with their first run."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
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
from services.http_api.json_bodies import BodyReader, Json, json_of, moment, struct_of
from services.http_api.run_request import END_NODE, Body, Checkpoint, key_of, read_body
from services.http_api.run_results import ended, problem_of
from services.http_api.thread_states import MOST_STATES, ThreadStates, place_of
from services.kit.wire.pages import listed

MOST_THREADS: Final = 100
# Of a search: threads that it looks at, newest first.
MOST_SEARCHED: Final = 5000
READ_AT_ONCE: Final = 8
IDLE, BUSY, INTERRUPTED, FAILED = "idle", "busy", "interrupted", "error"
_STATUS: Final[Mapping[int, str]] = {
    runs_pb2.RUN_STATE_PENDING: BUSY,
    runs_pb2.RUN_STATE_RUNNING: BUSY,
    runs_pb2.RUN_STATE_AWAITING_INPUT: INTERRUPTED,
    runs_pb2.RUN_STATE_FAILED: FAILED,
}
# What LangGraph's server keeps with a thread once it has a run.
GRAPH_ID, ASSISTANT_ID = "graph_id", "assistant_id"
THREAD_EXISTS: Final = "THREAD_EXISTS"
NO_TTL: Final = "ttl: is not offered; retention is the operator's to set"
ThreadId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]


class ThreadBody(Body):
    """A thread to create."""

    thread_id: ThreadId | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    ttl: Any = None
    supersteps: Any = None


class ThreadUpdateBody(Body):
    """What to keep with a thread."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    ttl: Any = None


class PruneBody(Body):
    """What threads to delete."""

    thread_ids: Annotated[list[ThreadId], Field(max_length=MOST_THREADS)]
    strategy: Literal["delete", "keep_latest"] = "delete"


class SearchBody(Body):
    """What threads to find."""

    limit: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 10
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    ids: Annotated[list[ThreadId], Field(max_length=MOST_THREADS)] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, max_length=20)
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
    """A thread, and its latest runs as far as they have been read, newest first."""

    thread: threads_pb2.Thread
    runs: Sequence[runs_pb2.Run] = ()

    @property
    def thread_id(self) -> str:
        """Its id."""
        return self.thread.thread_id

    @property
    def exists(self) -> bool:
        """Whether there is anything of it."""
        return self.thread.HasField("create_time")

    @property
    def status(self) -> str:
        """What it does: what its runs do."""
        return _STATUS.get(self.thread.state, IDLE)

    @property
    def metadata(self) -> dict[str, Any]:
        """What is kept with it, and its latest run's agent and labels."""
        found = {**self.thread.labels, **json_of(self.thread.metadata)}
        agent = self.thread.agent or found.get(GRAPH_ID)
        return {**found, GRAPH_ID: agent, ASSISTANT_ID: assistant_id_of(str(agent))} if agent else found

    @property
    def updated_at(self) -> str:
        """When something of it was new."""
        if not self.exists:
            return now()
        ended = [run.end_time for run in self.runs[:1] if run.HasField("end_time")]
        return moment(ended[0] if ended else self.thread.latest_run_time)

    def document(self, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns it as the protocol has it."""
        asking = [run for run in self.runs if run.HasField("input_request")]
        return {
            "thread_id": self.thread_id,
            "created_at": moment(self.thread.create_time) if self.exists else self.updated_at,
            "updated_at": self.updated_at,
            "state_updated_at": self.updated_at,
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
        """Names a thread. It is there once it has a run, or metadata are kept with it."""
        caller = self._gateway.caller(request)
        body = read_body(ThreadBody, await self._bodies.read(request))
        if body.ttl is not None:
            raise Invalid(NO_TTL)
        if body.supersteps:
            raise Invalid("supersteps: is not offered; a thread begins with a run")
        thread_id = body.thread_id or str(uuid.uuid4())
        summary = await summary_of(caller, thread_id)
        if summary.exists and body.if_exists == "raise":
            raise Conflict(f"there is a thread {thread_id!r} already", reason=THREAD_EXISTS)
        if body.metadata and not summary.exists:
            try:
                summary = await _kept(caller, thread_id, body.metadata, only_new=True)
            except Conflict as error:
                # Somebody was faster.
                if error.told_reason != THREAD_EXISTS or body.if_exists == "raise":
                    raise
        return Json(summary.document(None))

    async def update(self, request: Request) -> Response:
        """Keeps metadata with a thread, beside what it has."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        body = read_body(ThreadUpdateBody, await self._bodies.read(request))
        if body.ttl is not None:
            raise Invalid(NO_TTL)
        await _kept(caller, thread_id, body.metadata)
        return Json((await summary_of(caller, thread_id)).document(None))

    async def get(self, request: Request) -> Response:
        """Returns a thread; one without runs is empty, whatever its id."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        summary = await summary_of(caller, thread_id)
        head = await ThreadStates(caller, thread_id).head(summary.runs)
        return Json(summary.document(head["values"] or None))

    async def delete(self, request: Request) -> Response:
        """Deletes a thread with its runs."""
        await _deleted(self._gateway.caller(request), thread_id_of(request))
        return Response(status_code=204)

    async def prune(self, request: Request) -> Response:
        """Deletes threads with their runs."""
        caller = self._gateway.caller(request)
        body = read_body(PruneBody, await self._bodies.read(request))
        if body.strategy != "delete":
            raise Invalid("strategy: what is kept of a thread is the operator's retention to say; delete is offered")
        found = [await _deleted(caller, thread_id) for thread_id in body.thread_ids]
        return Json({"pruned_count": sum(found)})

    async def copy(self, request: Request) -> Response:
        """Makes a thread with the same history."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        runs = await ThreadStates(caller, thread_id).runs()
        ended = [run for run in runs if run.HasField("end_time") and not run.rolled_back_by]
        if not ended:
            raise NotFound(f"thread {thread_id!r} has no run that has ended, so that there is nothing to copy")
        fork = threads_pb2.ForkThreadRequest(thread_id=thread_id, run_id=ended[0].run_id)
        made = (await caller.call(caller.stubs.threads.ForkThread, fork)).thread
        if kept := json_of((await summary_of(caller, thread_id)).thread.metadata):
            await _kept(caller, made.thread_id, kept)
        return Json((await summary_of(caller, made.thread_id)).document(None))

    async def search(self, request: Request) -> Response:
        """Finds threads, those that have changed last first."""
        caller = self._gateway.caller(request)
        body = read_body(SearchBody, await self._bodies.read(request))
        found = (await self._found(caller, body))[body.offset : body.offset + body.limit]
        wants_values = body.select is None or "values" in body.select
        limit = asyncio.Semaphore(READ_AT_ONCE)

        async def document(summary: ThreadSummary) -> dict[str, Any]:
            head = None
            async with limit:
                if wants_values or summary.status == INTERRUPTED:
                    summary = await summary_of(caller, summary.thread_id)
                if wants_values:
                    head = await ThreadStates(caller, summary.thread_id).head(summary.runs)
            made = summary.document(head["values"] or None if head else None)
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
        body.checkpoint.check_of(thread_id_of(request))
        checkpoint_id = body.checkpoint.checkpoint_id
        return Json(await (states.at(place_of(checkpoint_id)) if checkpoint_id else states.head()))

    async def update_state(self, request: Request) -> Response:
        """Changes a state, as a run of its own that ends with that, and returns the checkpoint."""
        caller, states = self._states(request)
        body = read_body(StateUpdateBody, await self._bodies.read(request))
        if body.checkpoint:
            body.checkpoint.check_of(thread_id_of(request))
        if body.values is None and body.as_node != END_NODE:
            raise Invalid(f"values: are missing; without them only {END_NODE!r} is an `as_node`")
        runs = await states.runs()
        given = (body.checkpoint.checkpoint_id if body.checkpoint else "") or body.checkpoint_id
        fork = await fork_of(states, place_of(given) if given else await states.head_place(runs))
        if not await states.has_run(fork.run_id, runs):
            raise NotFound("the thread has no such checkpoint")
        fork.only_state, fork.as_node, fork.request_id = True, body.as_node, key_of(request)
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
        if body.checkpoint:
            body.checkpoint.check_of(thread_id_of(request))
            if body.checkpoint.checkpoint_id:
                return Json([await states.at(place_of(body.checkpoint.checkpoint_id))])
        before = place_of(_checkpoint_id(body.before)) if body.before else None
        found = await states.history(body.limit, before=before)
        # What is left out is asked for by the last that is told.
        more = {"x-pagination-next": found[-1]["checkpoint"]["checkpoint_id"]} if found and states.is_full else {}
        return Json(found, headers=more)

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
        by = body.sort_by if body.sort_by in ("thread_id", "status", "created_at") else "updated_at"
        return sorted(found, key=lambda each: str(each.document(None)[by]), reverse=body.sort_order == "desc")


async def summary_of(caller: Caller, thread_id: str) -> ThreadSummary:
    """Returns a thread; without runs or metadata it is one that has had none."""
    request = threads_pb2.GetThreadRequest(thread_id=thread_id)
    try:
        found = await caller.call(caller.stubs.threads.GetThread, request)
    except NotFound:
        return ThreadSummary(threads_pb2.Thread(thread_id=thread_id))
    return ThreadSummary(found.thread, found.runs)


async def summaries(caller: Caller, metadata: Mapping[str, Any]) -> list[ThreadSummary]:
    """Returns the caller's threads that have metadata, of so many of the newest."""
    wanted = {name: metadata[name] for name in (GRAPH_ID, ASSISTANT_ID) if name in metadata}
    others = {name: value for name, value in metadata.items() if name not in wanted}
    request = threads_pb2.ListThreadsRequest(metadata=struct_of(others))
    call = partial(caller.call, caller.stubs.threads.ListThreads)
    found = [ThreadSummary(each) for each in await listed(call, request, "threads", limit=MOST_SEARCHED)]
    # A runtime of the release before this one finds all, and tells nothing of what is kept. By name alone, since the
    # gateway may have put marks in the place of values.
    return [each for each in found if wanted.items() <= each.metadata.items() and others.keys() <= each.metadata.keys()]


async def _deleted(caller: Caller, thread_id: str) -> bool:
    request = threads_pb2.DeleteThreadRequest(thread_id=thread_id)
    try:
        await caller.call(caller.stubs.threads.DeleteThread, request)
    except NotFound:  # there is nothing of it, or a first try was told of nowhere
        return False
    return True


async def _kept(
    caller: Caller, thread_id: str, metadata: Mapping[str, Any], *, only_new: bool = False
) -> ThreadSummary:
    request = threads_pb2.UpdateThreadRequest(
        thread_id=thread_id, metadata=struct_of(dict(metadata)), only_new=only_new
    )
    return ThreadSummary((await caller.call(caller.stubs.threads.UpdateThread, request)).thread)


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
