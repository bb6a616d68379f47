"""What is asked of the gateway for threads, and what of its answers is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import runs_pb2, threads_pb2
from starlette.requests import Request

from services.http_api.errors import Conflict
from services.http_api.json_bodies import BodyReader
from services.http_api.threads import ThreadRoutes, summaries


class FakeGateway:
    """A gateway with two threads, one of them told without what is kept; it takes no fork."""

    def __init__(self) -> None:
        self.forks: list[threads_pb2.ForkRunRequest] = []
        kept = Struct()
        kept.update({"mail": "[email]"})
        self._threads = [
            threads_pb2.Thread(thread_id="kept", metadata=kept, labels={"team": "payments"}),
            threads_pb2.Thread(thread_id="untold"),
        ]
        self.stubs = SimpleNamespace(
            threads=SimpleNamespace(
                ListThreads=lambda _: threads_pb2.ListThreadsResponse(threads=self._threads),
                GetThread=lambda _: threads_pb2.GetThreadResponse(runs=[runs_pb2.Run(run_id="r", agent="talk")]),
                GetRunState=self._state,
                ForkRun=self._fork,
            )
        )

    def caller(self, _request: Request) -> FakeGateway:
        return self

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    def _state(self, _request: Any) -> threads_pb2.GetRunStateResponse:
        checkpoint = threads_pb2.Checkpoint(checkpoint_id="c", step=1)
        state = threads_pb2.ThreadState(checkpoint=checkpoint)
        return threads_pb2.GetRunStateResponse(state=state, checkpoints=[checkpoint])

    def _fork(self, request: threads_pb2.ForkRunRequest) -> threads_pb2.ForkRunResponse:
        self.forks.append(request)
        raise Conflict("another run is active")


async def test_threads_of_which_nothing_is_told_are_not_found_by_it() -> None:
    gateway: Any = FakeGateway()
    for wanted in ({"mail": "ana@example.com"}, {"team": "payments"}):
        assert [each.thread_id for each in await summaries(gateway, wanted)] == ["kept"]
    assert len(await summaries(gateway, {})) == 2


async def test_a_change_of_a_state_is_asked_for_with_the_key_of_the_request() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": orjson.dumps({"values": {"n": 1}})}

    headers = [(b"content-type", b"application/json"), (b"idempotency-key", b"once")]
    request = Request({"type": "http", "headers": headers, "path_params": {"thread_id": "t"}}, receive)
    gateway: Any = FakeGateway()
    with pytest.raises(Conflict):
        await ThreadRoutes(gateway, BodyReader(max_bytes=1000, timeout_s=5)).update_state(request)
    [fork] = gateway.forks
    assert (fork.run_id, fork.step, fork.only_state, fork.request_id) == ("r", 1, True, "once")
