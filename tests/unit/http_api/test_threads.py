"""What is asked of the gateway for threads, and what of its answers is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import threads_pb2

from services.http_api.threads import summaries


class FakeGateway:
    """A gateway with two threads, one of them told without what is kept."""

    def __init__(self) -> None:
        kept = Struct()
        kept.update({"mail": "[email]"})
        threads = [
            threads_pb2.Thread(thread_id="kept", metadata=kept, labels={"team": "payments"}),
            threads_pb2.Thread(thread_id="untold"),
        ]
        listed = threads_pb2.ListThreadsResponse(threads=threads)
        self.stubs = SimpleNamespace(threads=SimpleNamespace(ListThreads=lambda _: listed))

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)


async def test_threads_of_which_nothing_is_told_are_not_found_by_it() -> None:
    gateway: Any = FakeGateway()
    for wanted in ({"mail": "ana@example.com"}, {"team": "payments"}):
        assert [each.thread_id for each in await summaries(gateway, wanted)] == ["kept"]
    assert len(await summaries(gateway, {})) == 2
