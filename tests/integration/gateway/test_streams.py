"""Streams at the gateway: every event once, the last one always, whatever becomes of the runtime's replicas."""

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any
from urllib.request import urlopen

import grpc
import pytest
from signalbox.v1 import runs_pb2

from services.kit.errors import error_detail
from tests.integration.gateway.conftest import Platform, StartPlatform, question
from tests.integration.gateway.fake_runtime import Replica

ENDED = "run_ended"


class Reader:
    """A caller that reads a stream event by event, each in bounded time."""

    def __init__(self, call: AsyncIterable[Any]) -> None:
        self.call: Any = call
        self._events = aiter(call)
        self.seen: list[runs_pb2.RunEvent] = []

    async def next(self) -> runs_pb2.RunEvent:
        """The next event."""
        response = await asyncio.wait_for(anext(self._events), 60)
        self.seen.append(response.event)
        event: runs_pb2.RunEvent = response.event
        return event

    async def rest(self) -> list[int]:
        """Reads to the end; returns the sequence of every event seen."""
        async with asyncio.timeout(60):
            async for response in self._events:
                self.seen.append(response.event)
        return [event.sequence for event in self.seen]


def execute(platform: Platform, request: runs_pb2.CreateRunRequest | None = None, **call: Any) -> Reader:
    create = request or question()
    return Reader(platform.stub.ExecuteRun(runs_pb2.ExecuteRunRequest(create=create), metadata=platform.auth(), **call))


def watch(platform: Platform, run_id: str, after: int = 0) -> Reader:
    request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=after)
    return Reader(platform.stub.WatchRun(request, metadata=platform.auth()))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the fake's state has no event
            await asyncio.sleep(0.01)


def serving(platform: Platform) -> Replica:
    """The replica that serves the stream."""
    [replica] = [replica for replica in platform.replicas if replica.open_streams]
    return replica


async def metric(platform: Platform, name: str) -> float:
    url = f"http://{platform.metrics_address}/metrics"
    text = await asyncio.to_thread(lambda: urlopen(url, timeout=60).read().decode())
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def open_streams(platform: Platform) -> float:
    return await metric(platform, 'signalbox_gateway_open_streams{method="ExecuteRun"}')


async def no_open_streams(platform: Platform) -> None:
    async with asyncio.timeout(30):
        while await open_streams(platform):  # noqa: ASYNC110 - a gauge tells nobody
            await asyncio.sleep(0.01)


async def test_a_run_is_streamed_to_its_end(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.step(run_id, "agent")
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2, 3]
    assert reader.seen[-1].run_ended.run.run_id == run_id


async def test_a_request_id_and_a_correlation_id_are_made_where_the_caller_gave_none(platform: Platform) -> None:
    await platform.stub.CreateRun(question(), metadata=platform.auth())
    await platform.stub.CreateRun(question(), metadata=platform.auth())
    first, second = (request for _, request, _ in platform.calls)
    assert len({first.request_id, second.request_id, first.correlation_id, second.correlation_id}) == 4
    assert all((first.request_id, second.request_id, first.correlation_id, second.correlation_id))


async def test_the_callers_own_ids_are_kept(platform: Platform) -> None:
    await platform.stub.CreateRun(question(request_id="mine", correlation_id="case-7"), metadata=platform.auth())
    [(_, request, _)] = platform.calls
    assert (request.request_id, request.correlation_id) == ("mine", "case-7")


async def test_a_stream_moves_to_another_replica_when_its_own_dies(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.step(run_id, "screen_question")
    await reader.next()
    dying = serving(platform)
    await dying.cut()
    await platform.store.step(run_id, "agent")
    assert (await reader.next()).sequence == 3
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2, 3, 4]
    assert reader.seen[-1].WhichOneof("event") == ENDED
    [survivor] = [replica for replica in platform.replicas if replica is not dying]
    [(method, request, _)] = survivor.calls
    assert method == "WatchRun"
    assert (request.run_id, request.after_sequence) == (run_id, 2)


async def test_a_stream_moves_when_its_replica_is_drained(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await serving(platform).drain(0.1)
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2]


async def test_a_stream_survives_cut_after_cut(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    for _ in range(6):
        await until(lambda: any(replica.open_streams for replica in platform.replicas))
        for replica in platform.replicas:
            await replica.reset()
        await platform.store.step(run_id, "agent")
        await reader.next()
    await platform.store.end(run_id)
    assert await reader.rest() == list(range(1, 9))


async def test_events_that_the_runtime_sends_again_are_delivered_once(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.step(run_id, "agent")
    await reader.next()
    for replica in platform.replicas:
        replica.resend_from_start = True
    repeated = await metric(platform, "signalbox_gateway_events_repeated_total")
    await serving(platform).cut()
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2, 3]
    assert await metric(platform, "signalbox_gateway_events_repeated_total") - repeated == 2


async def test_a_watch_from_beyond_the_last_event_is_sent_what_is_to_come(platform: Platform) -> None:
    run_id = (await execute(platform).next()).run_id
    far, next_but_one = watch(platform, run_id, after=1_000), watch(platform, run_id, after=3)
    await until(lambda: sum(replica.open_streams for replica in platform.replicas) == 3)
    await platform.store.step(run_id, "agent")
    await platform.store.end(run_id)
    for reader in (far, next_but_one):
        assert await reader.rest() == [2, 3]
        assert reader.seen[-1].WhichOneof("event") == ENDED


async def test_the_end_that_falls_into_an_outage_of_every_replica_is_delivered_after_it(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    for replica in platform.replicas:
        await replica.cut()
    await platform.store.end(run_id)
    await platform.replicas[1].come_back()
    assert await reader.rest() == [1, 2]
    assert reader.seen[-1].WhichOneof("event") == ENDED


async def test_a_run_whose_creation_was_cut_is_created_once(platform: Platform) -> None:
    for replica in platform.replicas:
        await replica.cut()
    reader = execute(platform)
    first = asyncio.create_task(reader.next())
    await platform.replicas[0].come_back()
    run_id = (await first).run_id
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2]
    assert list(platform.store.runs) == [run_id]


async def test_a_run_that_was_created_and_not_told_of_is_created_once(platform: Platform) -> None:
    for replica in platform.replicas:
        replica.cut_once_created = True
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.end(run_id)
    assert await reader.rest() == [1, 2]
    assert list(platform.store.runs) == [run_id]
    assert not all(replica.cut_once_created for replica in platform.replicas)


async def test_create_is_repeated_by_its_request_id_until_a_replica_is_there(platform: Platform) -> None:
    for replica in platform.replicas:
        await replica.cut()
    creating = asyncio.ensure_future(platform.stub.CreateRun(question(), metadata=platform.auth()))
    await platform.replicas[0].come_back()
    response = await asyncio.wait_for(creating, 60)
    assert list(platform.store.runs) == [response.run.run_id]


async def test_an_outage_longer_than_the_recovery_time_ends_the_stream_and_says_how_to_go_on(
    start_platform: StartPlatform,
) -> None:
    platform = await start_platform(recovery_s=3)
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    for replica in platform.replicas:
        await replica.cut()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reader.next()
    detail = error_detail(caught.value)
    assert detail.code is grpc.StatusCode.UNAVAILABLE
    assert detail.reason == "RUNTIME_UNAVAILABLE"
    assert detail.metadata["run_id"] == run_id
    assert detail.retryable
    assert detail.retry_after_s
    await platform.replicas[0].come_back()
    await platform.store.end(run_id)
    assert await watch(platform, run_id, after=1).rest() == [2]


async def test_an_outage_does_not_outlast_the_callers_deadline(platform: Platform) -> None:
    for replica in platform.replicas:
        await replica.cut()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await execute(platform, timeout=1).next()
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    await no_open_streams(platform)  # long before it would give up by itself


async def test_a_watch_starts_after_its_sequence_number(platform: Platform) -> None:
    run = await platform.store.create(question(request_id="r"))
    for node in ("screen_question", "agent", "tools"):
        await platform.store.step(run.run_id, node)
    await platform.store.end(run.run_id)
    assert await watch(platform, run.run_id, after=3).rest() == [4, 5]
    assert await watch(platform, run.run_id, after=5).rest() == []


async def test_a_stream_ends_where_the_run_awaits_input(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.ask(run_id)
    assert await reader.rest() == [1, 2]
    assert await watch(platform, run_id, after=2).rest() == []


async def test_a_replay_goes_past_a_question_that_was_answered(platform: Platform) -> None:
    run = await platform.store.create(question(request_id="r"))
    await platform.store.ask(run.run_id)
    await platform.store.step(run.run_id, "call_tool")
    await platform.store.end(run.run_id)
    assert await watch(platform, run.run_id).rest() == [1, 2, 3, 4]


async def test_a_caller_that_goes_away_changes_nothing_for_the_run(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    replica = serving(platform)
    reader.call.cancel()
    await until(lambda: replica.open_streams == 0)
    await platform.store.end(run_id)
    assert {method for method, _, _ in platform.calls} == {"ExecuteRun"}
    assert await watch(platform, run_id).rest() == [1, 2]


async def test_open_streams_are_counted_while_they_are_open(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    assert await open_streams(platform) == 1
    await platform.store.end(run_id)
    await reader.rest()
    await no_open_streams(platform)


async def test_a_gateway_that_is_stopped_ends_its_streams_so_that_they_can_go_on_elsewhere(platform: Platform) -> None:
    reader = execute(platform)
    run_id = (await reader.next()).run_id
    await platform.store.step(run_id, "screen_question")
    await reader.next()
    stopping = asyncio.ensure_future(platform.stop_gateway())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reader.rest()
    await stopping
    detail = error_detail(caught.value)
    assert (detail.code, detail.reason, detail.retryable) == (grpc.StatusCode.UNAVAILABLE, "DRAINING", True)
    assert detail.retry_after_s is not None
    assert [event.sequence for event in reader.seen] == [1, 2]
