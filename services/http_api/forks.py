"""Runs that go on from a state of a thread, or only change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api.errors import Conflict
from services.http_api.gateway import Caller
from services.http_api.thread_states import Place, ThreadStates

THREAD_BUSY: Final = "THREAD_BUSY"


def asking_of(runs: Sequence[runs_pb2.Run]) -> runs_pb2.Run | None:
    """Returns the run of a thread that asks something, if one does."""
    return next((run for run in runs if run.HasField("input_request")), None)


async def cancel(caller: Caller, run_id: str) -> None:
    """Asks a run to stop; one that has ended is as it is."""
    try:
        await caller.call(caller.stubs.runs.CancelRun, runs_pb2.CancelRunRequest(run_id=run_id))
    except Conflict:
        return


async def fork_of(states: ThreadStates, place: Place | None) -> threads_pb2.ForkRunRequest:
    """Returns what goes on from a state of a thread. Raises Conflict for a thread that has none."""
    if place is None:
        raise Conflict("the thread has no state yet: create a run with `input`", reason="NO_STATE")
    return threads_pb2.ForkRunRequest(run_id=place.run_id, step=await states.step_of(place), in_thread=True)


async def forked(caller: Caller, fork: threads_pb2.ForkRunRequest, left: runs_pb2.Run | None) -> runs_pb2.Run:
    """Returns the run that goes on from an earlier state, for which the run that is left unanswered makes room."""
    try:
        return (await caller.call(caller.stubs.threads.ForkRun, fork)).run
    except Conflict as error:
        if left is None or error.told_reason != THREAD_BUSY:
            raise
    await cancel(caller, left.run_id)
    return (await caller.call(caller.stubs.threads.ForkRun, fork)).run
