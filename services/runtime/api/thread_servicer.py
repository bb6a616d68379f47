"""ThreadService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
from opentelemetry import propagate
from signalbox.v1 import threads_pb2, threads_pb2_grpc

from services.runtime.api.callers import Callers, Context
from services.runtime.api.page_tokens import step_place_of, step_token, thread_place_of, time_token
from services.runtime.api.task_wire import tasks_proto
from services.runtime.api.wire import filter_of, run_proto, struct_proto, timestamp_proto
from services.runtime.engine.history import Steps
from services.runtime.engine.pages import fitting
from services.runtime.engine.rights import shown_to
from services.runtime.engine.run_states import NewFork, RunStates
from services.runtime.engine.snapshot import CheckpointSummary, Snapshot
from services.runtime.engine.threads import Fork, ThreadRecord, ThreadStore
from services.runtime.hosted.schemas import plain

THREADS_PAGE: Final = 50
STATES_PAGE: Final = 50
# Of a state in an answer, and of one field of it where they are too large together.
MOST_STATE_BYTES: Final = 2_000_000
MOST_FIELD_BYTES: Final = 50_000


class ThreadServicer(threads_pb2_grpc.ThreadServiceServicer):
    """Serves threads."""

    def __init__(
        self, callers: Callers, threads: ThreadStore, states: RunStates, tell_of_fork: Callable[..., Awaitable[None]]
    ) -> None:
        self._tell_of_fork = tell_of_fork
        self._callers = callers
        self._states = states
        self._threads = threads

    async def ListThreads(
        self, request: threads_pb2.ListThreadsRequest, context: Context
    ) -> threads_pb2.ListThreadsResponse:
        """Lists the caller's threads, newest first."""
        caller = self._callers.caller(context)
        limit = request.page_size or THREADS_PAGE
        threads = await self._threads.select(
            caller,
            limit=limit + 1,
            before=thread_place_of(request.page_token),
            metadata=filter_of(request.metadata, "metadata"),
        )
        last = threads[limit - 1] if len(threads) > limit else None
        return threads_pb2.ListThreadsResponse(
            threads=[_thread(thread) for thread in threads[:limit]],
            next_page_token=time_token(last.created_at, last.thread_id) if last else "",
        )

    async def UpdateThread(
        self, request: threads_pb2.UpdateThreadRequest, context: Context
    ) -> threads_pb2.UpdateThreadResponse:
        """Keeps metadata with a thread."""
        caller, metadata = self._callers.caller(context), plain(request.metadata)
        thread = await self._threads.update(caller, request.thread_id, metadata, only_new=request.only_new)
        return threads_pb2.UpdateThreadResponse(thread=_thread(thread))

    async def GetThread(self, request: threads_pb2.GetThreadRequest, context: Context) -> threads_pb2.GetThreadResponse:
        """Returns a thread with its runs."""
        caller = self._callers.caller(context)
        thread = await self._threads.get(caller, request.thread_id)
        runs = await self._threads.runs(caller, request.thread_id)
        shown = [run_proto(shown_to(caller, run)) for run in runs]
        return threads_pb2.GetThreadResponse(thread=_thread(thread), runs=shown)

    async def GetThreadState(
        self, request: threads_pb2.GetThreadStateRequest, context: Context
    ) -> threads_pb2.GetThreadStateResponse:
        """Returns the state of a run at a checkpoint."""
        snapshot, checkpoints = await self._threads.state(
            self._callers.caller(context), request.thread_id, request.run_id, request.checkpoint_id or None
        )
        return threads_pb2.GetThreadStateResponse(
            state=_state(request.run_id, snapshot), checkpoints=[_checkpoint(each) for each in checkpoints]
        )

    async def ForkThread(
        self, request: threads_pb2.ForkThreadRequest, context: Context
    ) -> threads_pb2.ForkThreadResponse:
        """Makes a thread of another's history."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        fork = Fork(
            request.thread_id,
            request.run_id,
            request.checkpoint_id or None,
            request.new_thread_id or None,
            carrier.get("traceparent", ""),
        )
        thread, run = await self._threads.fork(self._callers.caller(context), fork)
        if run:
            await self._tell_of_fork(run)
        return threads_pb2.ForkThreadResponse(thread=_thread(thread), run=run_proto(run) if run else None)

    async def GetRunState(
        self, request: threads_pb2.GetRunStateRequest, context: Context
    ) -> threads_pb2.GetRunStateResponse:
        """Returns the state of a run after a step."""
        step = request.step if request.HasField("step") else None
        snapshot, steps = await self._states.state(
            self._callers.caller(context),
            request.run_id,
            step,
            as_output=request.as_output,
            alone=request.without_checkpoints,
            with_tasks=request.with_tasks,
        )
        state = _state(request.run_id, snapshot, fitting_values(snapshot.values))
        told = [] if request.without_checkpoints else [_checkpoint(each) for each in steps]
        return threads_pb2.GetRunStateResponse(state=state, checkpoints=told)

    async def ListRunStates(
        self, request: threads_pb2.ListRunStatesRequest, context: Context
    ) -> threads_pb2.ListRunStatesResponse:
        """Lists the states of a run after its steps."""
        limit = request.page_size or STATES_PAGE
        found = await self._states.after_steps(
            self._callers.caller(context),
            request.run_id,
            _steps(request, limit + 1),
            as_output=request.as_output,
            with_tasks=request.with_tasks,
        )
        page = fitting(
            _state(request.run_id, each, fitting_values(each.values)) for each in itertools.islice(found.states, limit)
        )
        return threads_pb2.ListRunStatesResponse(
            states=page,
            next_page_token=step_token(page[-1].checkpoint.step) if len(page) < found.count else "",
            last_sequence=found.last_sequence,
        )

    async def ForkRun(self, request: threads_pb2.ForkRunRequest, context: Context) -> threads_pb2.ForkRunResponse:
        """Creates a run that goes on from a step of another; a repeat of a request finds it."""
        caller = self._callers.caller(context)
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        update = plain(request.update) if request.HasField("update") else None
        fork = NewFork(
            request.run_id,
            request.step,
            update,
            request.as_node,
            carrier.get("traceparent", ""),
            request.request_id or None,
            request.in_thread,
            plain(request.input) if request.HasField("input") else None,
            request.only_state,
            request.token_chunks,
            request.callback_events,
        )
        run = await self._states.fork(caller, fork)
        await self._tell_of_fork(run, chunks=request.token_chunks)
        return threads_pb2.ForkRunResponse(run=run_proto(run))

    async def DeleteThread(
        self, request: threads_pb2.DeleteThreadRequest, context: Context
    ) -> threads_pb2.DeleteThreadResponse:
        """Deletes a thread."""
        run_count, decision_count = await self._threads.delete(self._callers.caller(context), request.thread_id)
        return threads_pb2.DeleteThreadResponse(run_count=run_count, decision_count=decision_count)


def _steps(request: threads_pb2.ListRunStatesRequest, limit: int) -> Steps:
    told = step_place_of(request.page_token)
    after = request.after_step if request.HasField("after_step") else None
    before = request.before_step if request.HasField("before_step") else None
    if told is not None and request.newest_first:
        before = told
    elif told is not None:
        after = told
    return Steps(limit, after, before, request.newest_first)


def _thread(thread: ThreadRecord) -> threads_pb2.Thread:
    return threads_pb2.Thread(
        thread_id=thread.thread_id,
        create_time=timestamp_proto(thread.created_at),
        latest_run_time=timestamp_proto(thread.latest_run_at),
        run_count=thread.run_count,
        active_run_id=thread.active_run_id or "",
        metadata=struct_proto(thread.metadata),
        agent=thread.agent,
        labels=thread.labels,
        state=f"RUN_STATE_{thread.state or 'UNSPECIFIED'}",
    )


def _checkpoint(summary: CheckpointSummary) -> threads_pb2.Checkpoint:
    return threads_pb2.Checkpoint(
        checkpoint_id=summary.checkpoint_id,
        step=summary.step,
        create_time=timestamp_proto(summary.created_at),
        next_nodes=summary.next_nodes,
    )


def _state(run_id: str, snapshot: Snapshot, values: Mapping[str, Any] | None = None) -> threads_pb2.ThreadState:
    return threads_pb2.ThreadState(
        run_id=run_id,
        checkpoint=_checkpoint(snapshot.checkpoint),
        next_nodes=snapshot.checkpoint.next_nodes,
        values=struct_proto(values if values is not None else snapshot.values),
        tasks=tasks_proto(snapshot.tasks),
        ended_tasks=tasks_proto(snapshot.ended_tasks),
    )


def fitting_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a state, without those that would make an answer too large to be sent."""
    sizes = {name: len(orjson.dumps(value, default=str)) for name, value in values.items()}
    if sum(sizes.values()) <= MOST_STATE_BYTES:
        return dict(values)
    return {
        name: value if sizes[name] <= MOST_FIELD_BYTES else f"<{sizes[name]:,} bytes of JSON>"
        for name, value in values.items()
    }
