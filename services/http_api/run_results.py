"""What a run has come to: what it brought, or what kept it from that."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from signalbox.v1 import outcome_pb2, runs_pb2

from services.http_api.errors import PASSING, TooLate
from services.http_api.gateway import Caller
from services.http_api.json_bodies import json_of
from services.kit.wire.event_kinds import RUN_ENDED

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 2.0


async def ended(caller: Caller, run_id: str) -> runs_pb2.Run:
    """Returns a run that is soon over, once it is, whichever gateway says so.

    Raises TooLate where it is not within the time of a call.
    """
    pause_s = FIRST_PAUSE_S
    try:
        async with asyncio.timeout(caller.stubs.call_timeout_s):
            while True:
                # The run goes on meanwhile: who is told that it failed would ask for it once more.
                with suppress(*PASSING):
                    async with aclosing(caller.watch(runs_pb2.WatchRunRequest(run_id=run_id))) as events:
                        async for event in events:
                            if event.HasField(RUN_ENDED):
                                return event.run_ended.run
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
    except TimeoutError as error:
        raise TooLate(f"run {run_id} takes its time; it goes on by itself") from error


def output_of(run: runs_pb2.Run) -> dict[str, Any]:
    """Returns what a run has brought, as JSON."""
    if run.output.HasField("graph"):
        return json_of(run.output.graph.output)
    found = MessageToDict(run.output, preserving_proto_field_name=True)
    return dict(found.get(run.agent) or {})


def problem_of(run: runs_pb2.Run) -> dict[str, Any] | None:
    """Returns what kept a run from its answer; None where nothing did, or where it has not ended."""
    if run.state == runs_pb2.RUN_STATE_FAILED:
        return {"error": run.stop_reason, "message": run.error}
    if run.state == runs_pb2.RUN_STATE_NEEDS_REVIEW:
        return {"error": run.stop_reason, "message": f"the run was ended by {run.stop_reason} before its answer"}
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        ended = f"rolled back by {run.rolled_back_by}" if run.rolled_back_by else "cancelled"
        return {"error": run.stop_reason, "message": f"the run was {ended}"}
    if run.outcome == outcome_pb2.OUTCOME_BLOCKED and not output_of(run):
        return {"error": run.stop_reason, "message": run.error or "the guard blocked what the run came with"}
    return None
