"""Runs: created, streamed, waited for, joined, listed and cancelled."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import Field, RootModel, ValidationError
from signalbox.v1 import runs_pb2, threads_pb2
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.assistants import Assistant, assistant_id_of, find_assistant
from services.http_api.errors import ApiError, Conflict, Invalid, NotFound, NotOffered
from services.http_api.event_stream import Part, StreamedAnswer, Streams, awaited_json, event_stream
from services.http_api.forks import asking_of, cancel, fork_of, forked
from services.http_api.gateway import Caller, Gateway
from services.http_api.interrupts import INTERRUPT, answer_of, interrupts_of
from services.http_api.json_bodies import BodyReader, Json, moment, struct_of
from services.http_api.metrics import EVENTS_SENT, STREAMS_RESUMED
from services.http_api.reader import CANCEL_ON_DISCONNECT, CANCELS, Position, Wanted, position_of
from services.http_api.run_request import (
    CUSTOM,
    END_NODE,
    EVENTS,
    MESSAGES,
    UPDATES,
    VALUES,
    Body,
    RunBody,
    check_modes,
    key_of,
    read_body,
)
from services.http_api.run_results import output_of, problem_of
from services.http_api.run_steps import position_behind
from services.http_api.run_stream import ERROR, RunStream
from services.http_api.thread_events import run_id_of
from services.http_api.thread_states import ThreadStates, place_of
from services.http_api.whole_batches import created_whole
from services.kit.telemetry.logs import get_logger
from services.kit.wire.pages import pages

log = get_logger()

_NOTHING_TOLD: Final = Wanted(())
# Who joins a run and names no mode hears on LangGraph's server those that it began with, which are not kept here.
JOINED_MODES: Final = [VALUES, UPDATES, MESSAGES, CUSTOM]
MOST_RUNS: Final = 1000
MOST_OF_A_BATCH: Final = 50
THREAD_ID, RUN_ID = "thread_id", "run_id"
LAST_EVENT_ID: Final = "last-event-id"
CHECKPOINT_ID: Final = "checkpoint_id"
_STATUS: Final[Mapping[int, str]] = {
    runs_pb2.RUN_STATE_PENDING: "pending",
    runs_pb2.RUN_STATE_RUNNING: "running",
    runs_pb2.RUN_STATE_AWAITING_INPUT: "interrupted",
    runs_pb2.RUN_STATE_SUCCEEDED: "success",
    runs_pb2.RUN_STATE_FAILED: "error",
    runs_pb2.RUN_STATE_CANCELLED: "interrupted",
    runs_pb2.RUN_STATE_NEEDS_REVIEW: "error",
}
# What a run may be, by the protocol. None times out here: its limits end it as an error.
STATUSES: Final = ("pending", "running", "error", "success", "timeout", "interrupted")


class CancelManyBody(Body):
    """What runs to cancel."""

    thread_id: str = ""
    run_ids: Annotated[list[str], Field(max_length=MOST_OF_A_BATCH)] = Field(default_factory=list)
    status: Literal["pending", "running", "all"] | None = None


class Batch(RootModel[Annotated[list[RunBody], Field(min_length=1, max_length=MOST_OF_A_BATCH)]]):
    """Runs to create, each in no thread."""


@dataclass(frozen=True)
class Started:
    """A run that was created or gone on with, where it is followed from, and the question that was answered, if any."""

    run: runs_pb2.Run
    assistant: Assistant
    position: Position | None = None
    answered: str = ""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id


class RunRoutes:
    """Handles what is asked of runs."""

    def __init__(self, gateway: Gateway, bodies: BodyReader, streams: Streams, *, recovery_s: float) -> None:
        self._gateway = gateway
        self._bodies = bodies
        self._streams = streams
        self._recovery_s = recovery_s

    async def create(self, request: Request) -> Response:
        """Creates a run and returns it at once."""
        caller, thread_id = self._gateway.caller(request), _thread_id(request)
        body = read_body(RunBody, await self._bodies.read(request))
        run = (await self.started(caller, body, thread_id, key_of(request))).run
        return Json(run_document(run), headers=_found_at(thread_id, run.run_id))

    async def create_batch(self, request: Request) -> Response:
        """Creates several runs, each in no thread."""
        caller = self._gateway.caller(request)
        try:
            bodies = Batch.model_validate(await self._bodies.read(request)).root
        except ValidationError as error:
            raise Invalid(
                f"the body is to be a list of 1 to {MOST_OF_A_BATCH} runs: {error.errors()[0]['msg']}"
            ) from error
        key = key_of(request)
        for body in bodies:
            body.check()
            body.run_input(await find_assistant(caller, body.assistant_id), "")
            body.labels()
        request_id = key or str(uuid.uuid4())

        async def made(body: RunBody, number: int) -> runs_pb2.Run:
            return (await self.started(caller, body, "", f"{request_id}:{number}")).run

        creations = [partial(made, body, number) for number, body in enumerate(bodies)]
        if key:
            # A repeat finds those that there are.
            runs = [await creation() for creation in creations]
        else:
            runs = await created_whole(creations, partial(cancel, caller), recovery_s=self._recovery_s)
        return Json([run_document(run) for run in runs])

    async def stream(self, request: Request) -> Response:
        """Creates a run and streams it."""
        caller, thread_id = self._gateway.caller(request), _thread_id(request)
        self._streams.check()
        body = read_body(RunBody, await self._bodies.read(request))
        wanted = Wanted(check_modes(body.stream_mode), body.stream_subgraphs)
        started = await self.started(caller, body, thread_id, key_of(request), wanted)
        path, cancels = _path(thread_id, started.run_id), body.on_disconnect == "cancel"
        location = f"{path}/stream?{wanted.query(cancels=cancels)}"
        headers = {**_found_at(thread_id, started.run_id), "location": location}
        return self._told(caller, started, wanted, headers, cancels=cancels)

    async def wait(self, request: Request) -> Response:
        """Creates a run and returns what it brings, once it has ended or asks."""
        caller, thread_id = self._gateway.caller(request), _thread_id(request)
        self._streams.check()
        body = read_body(RunBody, await self._bodies.read(request))
        started = await self.started(caller, body, thread_id, key_of(request))
        path, cancels = _path(thread_id, started.run_id), body.on_disconnect == "cancel"
        location = f"{path}/join?{CANCELS}" if cancels else f"{path}/join"
        headers = {**_found_at(thread_id, started.run_id), "location": location}
        return self._awaited(caller, started, headers, cancels=cancels)

    async def join(self, request: Request) -> Response:
        """Returns what a run brings, once it has ended or asks."""
        caller, run = await self._asked_run(request)
        self._streams.check()
        started = Started(run, await find_assistant(caller, run.agent))
        return self._awaited(caller, started, {}, cancels=_flag(request, CANCEL_ON_DISCONNECT))

    async def join_stream(self, request: Request) -> Response:
        """Streams a run: from its beginning, or behind the last event that the reader has heard."""
        caller, run = await self._asked_run(request)
        self._streams.check()
        modes = check_modes(_modes(request)) or JOINED_MODES
        position = position_of(request.headers.get(LAST_EVENT_ID, ""))
        if position.sequence:
            STREAMS_RESUMED.inc()
        elif shown := request.query_params.get(CHECKPOINT_ID):
            position.step = await self._shown_step(caller, run, shown)
        started = Started(run, await find_assistant(caller, run.agent), position=position)
        wanted = Wanted(modes, _flag(request, "stream_subgraphs"))
        wanted.check_of(started.assistant)
        path, cancels = _path(_thread_id(request), run.run_id), _flag(request, CANCEL_ON_DISCONNECT)
        headers = {"location": f"{path}/stream?{wanted.query(cancels=cancels)}"}
        return self._told(caller, started, wanted, headers, cancels=cancels)

    async def get(self, request: Request) -> Response:
        """Returns a run."""
        _, run = await self._asked_run(request)
        return Json(run_document(run))

    async def all_of_thread(self, request: Request) -> Response:
        """Lists the runs of a thread, newest first."""
        caller, thread_id = self._gateway.caller(request), _thread_id(request)
        limit, offset = _number(request, "limit", 10, most=MOST_RUNS), _number(request, "offset", 0, most=MOST_RUNS)
        status = request.query_params.get("status")
        if status not in (None, *STATUSES):
            raise Invalid(f"status: there are {', '.join(STATUSES)}")
        found = []
        # Without a status they come in the pages that are asked for.
        most = offset + limit if status is None else MOST_RUNS
        async for run in self._runs_of(caller, thread_id, most=most):
            if status in (None, _STATUS.get(run.state, "")):
                found.append(run_document(run))
            if len(found) == offset + limit:
                break
        select = request.query_params.getlist("select")
        return Json(
            [
                {name: each for name, each in run.items() if not select or name in select}
                for run in found[offset : offset + limit]
            ]
        )

    async def cancel(self, request: Request) -> Response:
        """Asks a run to stop; with `wait`, until it has."""
        caller, run = await self._asked_run(request)
        _check_action(request)
        await cancel(caller, run.run_id)
        if not _flag(request, "wait"):
            return Response(status_code=202)
        self._streams.check()
        started = Started(run, await find_assistant(caller, run.agent))
        return self._awaited(caller, started, {}, cancels=False)

    async def cancel_many(self, request: Request) -> Response:
        """Asks runs to stop: those that are named, or those of a thread."""
        caller = self._gateway.caller(request)
        _check_action(request)
        body = read_body(CancelManyBody, await self._bodies.read(request))
        run_ids = [run_id_of(run_id) for run_id in body.run_ids]
        if run_ids and body.status:
            raise Invalid("status: is for the runs of a thread, and not for those that run_ids names")
        for run_id in run_ids if body.thread_id else ():
            await self._run_in(caller, run_id, body.thread_id)
        if not run_ids:
            if not body.thread_id:
                raise Invalid("name runs by run_ids, or a thread by thread_id")
            wanted = ("pending", "running") if body.status in (None, "all") else (body.status,)
            run_ids = [
                run.run_id
                async for run in self._runs_of(caller, body.thread_id)
                if _STATUS.get(run.state) in wanted or (body.status == "all" and run.HasField("input_request"))
            ]
        for run_id in run_ids:
            await cancel(caller, run_id)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """Says what removes runs."""
        self._gateway.caller(request)
        raise NotOffered("single runs are not deleted: what decided them stays on record; delete the thread")

    async def started(
        self, caller: Caller, body: RunBody, thread_id: str, key: str, wanted: Wanted = _NOTHING_TOLD
    ) -> Started:
        """Creates a run, or goes on with the thread's as the body says; a repeat with the same key finds its run.

        `wanted` is what is streamed of it, from the first word on.
        """
        body.check()
        if body.checkpoint:
            body.checkpoint.check_of(thread_id)
        assistant = await find_assistant(caller, body.assistant_id)
        wanted.check_of(assistant)
        runs = await ThreadStates(caller, thread_id).runs() if thread_id else []
        asking = asking_of(runs)
        body = body.answering([each["id"] for each in interrupts_of(asking.input_request)] if asking else ())
        if body.resumes:
            if key:
                raise Invalid("Idempotency-Key: an answer takes none, since a repeat would answer the next question")
            return await self._resumed(caller, asking, body, assistant, wanted)
        # As in LangGraph, who says something else than an answer does not answer.
        left = asking if body.multitask_strategy is None else None
        if body.goes_on(assistant) and (fork := await self._fork(caller, runs, body, assistant, thread_id)):
            fork.request_id = key
            fork.token_chunks, fork.callback_events = wanted.listens, wanted.has(EVENTS)
            return Started(await forked(caller, fork, left), assistant)
        create = runs_pb2.CreateRunRequest(
            input=body.run_input(assistant, thread_id),
            thread_id=thread_id,
            request_id=key or str(uuid.uuid4()),
            active_run_policy=body.policy(),
            labels=body.labels(),
            token_chunks=wanted.listens,
            callback_events=wanted.has(EVENTS),
        )
        run = (await caller.call(caller.stubs.runs.CreateRun, create)).run
        # Only now: what is refused leaves the question open, and so does a repeat that finds a run of before it.
        if left is not None and left.create_time.ToNanoseconds() < run.create_time.ToNanoseconds():
            await cancel(caller, left.run_id)
        return Started(run, assistant)

    async def _resumed(
        self, caller: Caller, asking: runs_pb2.Run | None, body: RunBody, assistant: Assistant, wanted: Wanted
    ) -> Started:
        if asking is None or body.command is None:
            raise Conflict("command.resume: no run of the thread asks anything", reason="NOTHING_ASKED")
        if asking.agent != assistant.name:
            raise Conflict(f"command.resume: what asks is a run of {asking.agent}", reason="NOTHING_ASKED")
        answer = answer_of(asking, body.command.resume)
        answer.token_chunks, answer.callback_events = wanted.listens, wanted.has(EVENTS)
        position = Position()
        try:
            state = await caller.call(
                caller.stubs.threads.GetRunState,
                threads_pb2.GetRunStateRequest(
                    run_id=asking.run_id, as_output=True, without_checkpoints=True, with_tasks=True
                ),
            )
            position = position_behind(state.state)
        except NotFound:
            position.step = 0  # it asks before its first step
        run = (await caller.call(caller.stubs.runs.ResumeRun, answer)).run
        return Started(run, assistant, position=position, answered=answer.input_request_id)

    async def _fork(
        self, caller: Caller, runs: list[runs_pb2.Run], body: RunBody, assistant: Assistant, thread_id: str
    ) -> threads_pb2.ForkRunRequest | None:
        """Returns what goes on from a state of the thread; None where input goes on top of the present one."""
        if not thread_id:
            raise Invalid("input: is missing; a run without one goes on from a state of a thread")
        states = ThreadStates(caller, thread_id)
        undone = {run.run_id for run in runs if body.rolls_back and not run.HasField("end_time")}
        head = await states.head_place(
            [run for run in runs if run.agent == assistant.name and run.run_id not in undone]
        )
        place = place_of(body.from_checkpoint) if body.from_checkpoint else head
        # Who shows a step of what is rolled back goes on from before that, too.
        is_head = place == head or (place is not None and place.run_id in undone)
        if body.input is not None and is_head and not body.ends:
            return None
        if place is not None and not await states.has_run(place.run_id, runs, assistant.name):
            raise NotFound(f"thread {thread_id!r} has no such checkpoint of {assistant.name}")
        body.check_fork(thread_id)
        fork = await fork_of(states, place)
        if body.ends:
            fork.as_node = END_NODE
        elif body.input is not None:
            if not isinstance(body.input, dict):
                raise Invalid("input: is to be an object with the fields of the graph's state")
            fork.input.CopyFrom(struct_of(assistant.known(body.input)))
        return fork

    def _told(
        self, caller: Caller, started: Started, wanted: Wanted, headers: dict[str, str], *, cancels: bool
    ) -> StreamedAnswer:
        stream = self._followed(caller, started, wanted)

        async def counted() -> AsyncGenerator[Part, None]:
            async with aclosing(stream.parts()) as parts:
                async for part in parts:
                    EVENTS_SENT.inc()
                    yield part

        left = self._cancelling(caller, started.run_id) if cancels else None
        return event_stream(self._streams, counted(), headers=headers, left=left)

    def _awaited(self, caller: Caller, started: Started, headers: dict[str, str], *, cancels: bool) -> StreamedAnswer:
        # No mode: what it brings is read in the end.
        stream = self._followed(caller, started, Wanted(()))

        async def document() -> Any:
            try:
                return await self._brought(caller, started, stream)
            except ApiError as error:
                return {"__error__": {"error": error.told_reason, "message": error.detail}}

        left = self._cancelling(caller, started.run_id) if cancels else None
        return awaited_json(self._streams, document(), headers=headers, left=left)

    async def _brought(self, caller: Caller, started: Started, stream: RunStream) -> dict[str, Any]:
        """Returns what a run has brought, or asks, once it has told all."""
        async with aclosing(stream.parts()) as parts:
            async for part in parts:
                if part.event == ERROR and stream.ended is None:
                    return {"__error__": part.data}
        run = stream.ended or await self._run(caller, started.run_id)
        if problem := problem_of(run):
            return {"__error__": problem}
        if run.HasField("input_request"):
            state = await ThreadStates(caller, run.thread_id).head([run])
            return {**state["values"], INTERRUPT: interrupts_of(run.input_request)}
        return output_of(run)

    def _followed(self, caller: Caller, started: Started, wanted: Wanted) -> RunStream:
        return RunStream(
            caller,
            started.run_id,
            started.assistant,
            wanted,
            started.position or Position(),
            recovery_s=self._recovery_s,
            thread_id=started.run.thread_id,
            after_question=started.answered,
        )

    def _cancelling(self, caller: Caller, run_id: str) -> Callable[[], Awaitable[None]]:
        async def stop() -> None:
            # Nobody is left to be told that it could not be.
            try:
                await cancel(caller, run_id)
            except ApiError as error:
                log.info("a run that nobody listens to goes on", run_id=run_id, error=error.detail)

        return stop

    async def _run(self, caller: Caller, run_id: str) -> runs_pb2.Run:
        return (await caller.call(caller.stubs.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))).run

    async def _shown_step(self, caller: Caller, run: runs_pb2.Run, shown: str) -> int:
        """Returns the step of a state that a reader shows already; that before all where the run has no such one."""
        place = place_of(shown)
        if place.run_id == run.run_id:
            with suppress(NotFound):  # retention was there
                return await ThreadStates(caller, run.thread_id).step_of(place)
        return Position().step

    async def _asked_run(self, request: Request) -> tuple[Caller, runs_pb2.Run]:
        """Returns the run that a path names. Raises NotFound where it is not in the path's thread."""
        caller = self._gateway.caller(request)
        return caller, await self._run_in(caller, request.path_params[RUN_ID], _thread_id(request))

    async def _run_in(self, caller: Caller, run_id: str, thread_id: str) -> runs_pb2.Run:
        run_id = run_id_of(run_id)
        try:
            uuid.UUID(run_id)
        except ValueError as error:
            raise NotFound(f"there is no run {run_id[:60]!r}") from error
        run = await self._run(caller, run_id)
        if run.thread_id != thread_id:
            raise NotFound(f"there is no run {run_id} in thread {thread_id!r}")
        return run

    async def _runs_of(self, caller: Caller, thread_id: str, *, most: int = MOST_RUNS) -> AsyncIterator[runs_pb2.Run]:
        request = runs_pb2.ListRunsRequest(thread_id=thread_id, subject=caller.subject)
        async for page in pages(partial(caller.call, caller.stubs.runs.ListRuns), request, "runs", limit=most):
            for run in page.runs:
                yield run


def run_document(run: runs_pb2.Run) -> dict[str, Any]:
    """Returns a run as the protocol has it."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id or None,
        "assistant_id": assistant_id_of(run.agent),
        "created_at": moment(run.create_time),
        "updated_at": moment(run.end_time if run.HasField("end_time") else run.create_time),
        "status": _STATUS.get(run.state, "pending"),
        "metadata": {
            **run.labels,
            "graph_id": run.agent,
            **({"stop_reason": run.stop_reason} if run.stop_reason else {}),
            **({"rolled_back_by": run.rolled_back_by} if run.rolled_back_by else {}),
        },
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }


def _path(thread_id: str, run_id: str) -> str:
    return f"/threads/{thread_id}/runs/{run_id}" if thread_id else f"/runs/{run_id}"


def _found_at(thread_id: str, run_id: str) -> dict[str, str]:
    return {"content-location": _path(thread_id, run_id)}


def _thread_id(request: Request) -> str:
    return str(request.path_params.get(THREAD_ID, ""))


def _modes(request: Request) -> list[str]:
    """Returns the modes of a query: repeated, in a JSON list, or separated by commas, as the SDKs write them."""
    given = ",".join(request.query_params.getlist("stream_mode"))
    return [each for part in given.strip("[]").split(",") if (each := part.strip().strip('"'))]


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in ("1", "true")


def _number(request: Request, name: str, default: int, *, most: int) -> int:
    given = request.query_params.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", given) or int(given) > most:
        raise Invalid(f"{name}: is to be a number of at most {most}")
    return int(given)


def _check_action(request: Request) -> None:
    if request.query_params.get("action", "interrupt") != "interrupt":
        raise Invalid("action: interrupt is offered; a new run rolls back by `multitask_strategy`")
