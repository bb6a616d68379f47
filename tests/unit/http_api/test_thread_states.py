"""A thread's states, where some can't be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api.errors import Conflict, NotFound
from services.http_api.thread_states import STATE_UNREADABLE, Place, ThreadStates

NAMES = ("newest", "middle", "oldest")


class FakeCaller:
    """A gateway with a thread of three runs of one step; what the states of some are instead, it is told."""

    def __init__(self, **instead: Exception) -> None:
        self.asked: list[str] = []
        self._instead = instead
        self.stubs = SimpleNamespace(threads=SimpleNamespace(GetThread=self._thread, GetRunState=self._state))

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    def _thread(self, _request: Any) -> threads_pb2.GetThreadResponse:
        return threads_pb2.GetThreadResponse(runs=[runs_pb2.Run(run_id=name, agent="talk") for name in NAMES])

    def _state(self, request: threads_pb2.GetRunStateRequest) -> threads_pb2.GetRunStateResponse:
        self.asked.append(request.run_id)
        if error := self._instead.get(request.run_id):
            raise error
        checkpoints = [threads_pb2.Checkpoint(checkpoint_id=name, step=step) for step, name in enumerate("ab")]
        state = threads_pb2.ThreadState(checkpoint=checkpoints[-1])
        state.values["of"] = request.run_id
        return threads_pb2.GetRunStateResponse(state=state, checkpoints=checkpoints)


def states(caller: FakeCaller) -> ThreadStates:
    asked: Any = caller
    return ThreadStates(asked, "t")


async def test_a_state_that_can_not_be_read_is_none() -> None:
    caller = FakeCaller(newest=Conflict("types are not there", reason=STATE_UNREADABLE))
    assert (await states(caller).head())["values"] == {"of": "middle"}
    with pytest.raises(Conflict):
        await states(FakeCaller(newest=Conflict("other"))).head()


async def test_no_run_is_looked_at_behind_the_state_that_is_asked_for() -> None:
    caller = FakeCaller()
    found = await states(caller).at(Place("middle", "b"))
    assert found["values"] == {"of": "middle"}
    assert "oldest" not in caller.asked
    with pytest.raises(NotFound):
        await states(caller).at(Place("middle", "c"))
