"""Batches through the gateway: created part after part, run at a pace, watched, cancelled, retried and exported."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import (
    batches_pb2,
    batches_pb2_grpc,
    data_chat_pb2,
    runs_pb2,
    runs_pb2_grpc,
    threads_pb2,
    threads_pb2_grpc,
)

from services.cli.batch_results import FORMS, form_of
from services.kit.errors import error_detail
from services.kit.identity.batch_tokens import BatchTokenClaims, BatchTokenMinter
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from tests.fixtures.stack import Platform, World, platform

TIMEOUT_S = 120.0
QUESTION = "How many devices do I have?"
ENDED = batches_pb2.BATCH_STATE_ENDED
SUCCEEDED = batches_pb2.BATCH_ITEM_STATE_SUCCEEDED


class Batches:
    """BatchService for one caller."""

    def __init__(self, running: Platform, subject: str, roles: Iterable[str] = ()) -> None:
        self.stub = batches_pb2_grpc.BatchServiceStub(running.channel)
        self.metadata = (bearer_metadata(running.token(subject, roles)),)

    async def call(self, method: str, request: Any) -> Any:
        """Makes a unary call."""
        return await getattr(self.stub, method)(request, metadata=self.metadata, timeout=TIMEOUT_S)

    async def uploaded(self, questions: Iterable[str], **fields: Any) -> str:
        """Creates a batch with a question an item, not started; returns its id."""
        created = await self.call("CreateBatch", batches_pb2.CreateBatchRequest(**fields))
        batch_id: str = created.batch.batch_id
        items = [item(question) for question in questions]
        await self.call(
            "AddBatchItems", batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=1, items=items)
        )
        return batch_id

    async def started(self, questions: Iterable[str], **fields: Any) -> str:
        """Creates a batch and starts it."""
        questions = list(questions)
        batch_id = await self.uploaded(questions, **fields)
        request = batches_pb2.StartBatchRequest(batch_id=batch_id, item_count=len(questions))
        await self.call("StartBatch", request)
        return batch_id

    async def watch(self, batch_id: str, after: int = 0) -> list[batches_pb2.WatchBatchResponse]:
        """What a watch says until the batch is over."""
        request = batches_pb2.WatchBatchRequest(batch_id=batch_id, after_sequence=after, with_runs=True)
        stream = self.stub.WatchBatch(request, metadata=self.metadata, timeout=TIMEOUT_S)
        return [response async for response in stream]

    async def ended(self, batch_id: str) -> batches_pb2.Batch:
        """The batch once it is over."""
        return (await self.watch(batch_id))[-1].batch

    async def export(self, batch_id: str, after: int = 0) -> list[batches_pb2.BatchItem]:
        """The items in their order."""
        request = batches_pb2.ExportBatchRequest(batch_id=batch_id, after_number=after)
        stream = self.stub.ExportBatch(request, metadata=self.metadata, timeout=TIMEOUT_S)
        return [response.item async for response in stream]


def item(question: str, key: str = "") -> batches_pb2.NewBatchItem:
    """An item that asks a question."""
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
    return batches_pb2.NewBatchItem(key=key, input=asked)


def counts(batch: batches_pb2.Batch) -> dict[int, int]:
    """How many items are in each state."""
    return {each.state: each.count for each in batch.counts}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(harbour: World) -> AsyncIterator[Platform]:
    """A platform with the service for batches, over the offline model."""
    env = {"batches": {"SIGNALBOX_BATCH_MOST_ITEMS": "50", "SIGNALBOX_BATCHES_AT_ONCE": "3"}}
    async with platform(harbour, batches=True, service_env=env) as started:
        yield started


async def test_every_item_of_a_batch_is_run_once_and_within_its_share(running: Platform) -> None:
    batches = Batches(running, "27")
    batch_id = await batches.started([QUESTION] * 12, name="twelve", max_runs=3)
    told = await batches.watch(batch_id)
    ended = [response.item_ended for response in told if response.HasField("item_ended")]
    assert sorted(each.item.number for each in ended) == list(range(1, 13))
    assert [each.sequence for each in ended] == sorted({each.sequence for each in ended})
    paces = [response.batch for response in told if response.HasField("batch")]
    held = max((counts(batch).get(batches_pb2.BATCH_ITEM_STATE_RUNNING, 0) for batch in paces), default=0)
    assert 0 < held <= 3
    last = told[-1].batch
    assert (last.state, last.name, last.pace, counts(last)) == (ENDED, "twelve", 0, {SUCCEEDED: 12})
    listed = await running.caller("27").run_pages(runs_pb2.ListRunsRequest(page_size=100, labels={"batch": batch_id}))
    runs = [run.run_id for page in listed for run in page]
    assert Counter(runs) == Counter(each.item.run_id for each in ended)
    assert all(each.item.run.output.data_chat.answer for each in ended)
    # A watch goes on behind the last end that was seen.
    [*rest] = await batches.watch(batch_id, after=ended[7].sequence)
    assert [each.item_ended.item.number for each in rest[:-1]] == [each.item.number for each in ended[8:]]


async def test_results_are_exported_in_order_and_the_same_bytes_each_time(running: Platform) -> None:
    batches = Batches(running, "27")
    batch_ids = [await batches.started([QUESTION, QUESTION]) for _ in range(2)]
    for batch_id in batch_ids:
        await batches.ended(batch_id)
    for name in FORMS:
        form = form_of(name, with_run_ids=False)
        first, second = ["".join(map(form.line, await batches.export(batch_id))) for batch_id in batch_ids]
        assert first == second
    items = await batches.export(batch_ids[0])
    assert [each.number for each in items] == [1, 2]
    assert all(each.run.output.data_chat.answer and each.run_id for each in items)
    assert [each.number for each in await batches.export(batch_ids[0], after=1)] == [2]


async def test_nothing_runs_before_all_items_are_there(running: Platform) -> None:
    batches = Batches(running, "27")
    batch_id = await batches.uploaded([QUESTION])
    add = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=3, items=[item(QUESTION)])
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await batches.call("AddBatchItems", add)
    assert error_detail(missing.value).reason == "BATCH_ITEMS_MISSING"
    assert error_detail(missing.value).metadata["item_count"] == "1"
    with pytest.raises(grpc.aio.AioRpcError) as short:
        await batches.call("StartBatch", batches_pb2.StartBatchRequest(batch_id=batch_id, item_count=2))
    assert error_detail(short.value).reason == "BATCH_ITEMS_MISSING"
    # A part that is given again, as after a lost answer, is there once; with another input it is refused.
    again = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=1, items=[item(QUESTION), item("Any?")])
    assert (await batches.call("AddBatchItems", again)).item_count == 2
    other = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=2, items=[item("Another?")])
    with pytest.raises(grpc.aio.AioRpcError) as changed:
        await batches.call("AddBatchItems", other)
    assert error_detail(changed.value).reason == "BATCH_ITEM_OTHER"
    batch = (await batches.call("GetBatch", batches_pb2.GetBatchRequest(batch_id=batch_id))).batch
    assert (batch.state, batch.item_count) == (batches_pb2.BATCH_STATE_UPLOADING, 2)
    listed = await running.caller("27").run_pages(runs_pb2.ListRunsRequest(labels={"batch": batch_id}))
    assert not [run for page in listed for run in page]
    cancelled = await batches.call("CancelBatch", batches_pb2.CancelBatchRequest(batch_id=batch_id))
    assert cancelled.batch.state == batches_pb2.BATCH_STATE_CANCELLED


async def test_a_batch_that_is_cancelled_stops_and_can_be_retried(running: Platform) -> None:
    batches = Batches(running, "27")
    batch_id = await batches.started([QUESTION] * 20, max_runs=1)
    await batches.call("CancelBatch", batches_pb2.CancelBatchRequest(batch_id=batch_id))
    batch = await batches.ended(batch_id)
    assert batch.state == batches_pb2.BATCH_STATE_CANCELLED
    never = counts(batch)[batches_pb2.BATCH_ITEM_STATE_CANCELLED]
    assert never >= 10
    again = await batches.call("RetryBatch", batches_pb2.RetryBatchRequest(batch_id=batch_id))
    assert again.retried_count == never
    assert counts(await batches.ended(batch_id)) == {SUCCEEDED: 20}
    with pytest.raises(grpc.aio.AioRpcError) as nothing:
        await batches.call("RetryBatch", batches_pb2.RetryBatchRequest(batch_id=batch_id))
    assert error_detail(nothing.value).reason == "BATCH_STATE_WRONG"


async def test_a_batch_is_its_callers_own(running: Platform) -> None:
    owner, other, operator = Batches(running, "27"), Batches(running, "99"), Batches(running, "ops", ["operator"])
    batch_id = await owner.started([QUESTION])
    await owner.ended(batch_id)
    get = batches_pb2.GetBatchRequest(batch_id=batch_id)
    for method, request in (
        ("GetBatch", get),
        ("CancelBatch", batches_pb2.CancelBatchRequest(batch_id=batch_id)),
        ("RetryBatch", batches_pb2.RetryBatchRequest(batch_id=batch_id)),
        ("StartBatch", batches_pb2.StartBatchRequest(batch_id=batch_id, item_count=1)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as hidden:
            await other.call(method, request)
        assert hidden.value.code() is grpc.StatusCode.NOT_FOUND, method
    with pytest.raises(grpc.aio.AioRpcError):
        await other.export(batch_id)
    with pytest.raises(grpc.aio.AioRpcError):
        await other.watch(batch_id)
    assert (await operator.call("GetBatch", get)).batch.caller.subject == "27"
    mine = await owner.call("ListBatches", batches_pb2.ListBatchesRequest(page_size=1))
    assert mine.next_page_token
    nobody = await other.call("ListBatches", batches_pb2.ListBatchesRequest(subject="27"))
    assert not nobody.batches


async def test_a_batchs_token_is_for_the_runs_of_that_batch(running: Platform) -> None:
    batches, caller = Batches(running, "27"), running.caller("27")
    batch_id = await batches.started([QUESTION])
    await batches.ended(batch_id)
    own = await caller.create(runs_pb2.CreateRunRequest(input=item(QUESTION).input, request_id="my-own"))
    others = BatchTokenMinter(running.stack.keys.batches.private.read_text(), BatchTokenClaims(Caller("27"), batch_id))
    token = (bearer_metadata(others.mint()),)
    labels = {"batch": batch_id}
    async with grpc.aio.insecure_channel(running.stack.runtimes[0].ready.listen) as channel:
        runs, threads = runs_pb2_grpc.RunServiceStub(channel), threads_pb2_grpc.ThreadServiceStub(channel)
        item_run = (await batches.watch(batch_id))[0].item_ended.item.run_id
        got = await runs.GetRun(runs_pb2.GetRunRequest(run_id=item_run), metadata=token)
        assert got.run.labels == labels

        async def refused(call: Any) -> grpc.StatusCode:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call
            code: grpc.StatusCode = error.value.code()
            return code

        denied, unknown = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
        asked = item(QUESTION).input
        watched = runs.WatchRun(runs_pb2.WatchRunRequest(run_id=own.run_id), metadata=token)
        for code, call in (
            (denied, runs.GetRun(runs_pb2.GetRunRequest(run_id=own.run_id), metadata=token)),
            (denied, runs.CancelRun(runs_pb2.CancelRunRequest(run_id=own.run_id), metadata=token)),
            (denied, watched.read()),
            (denied, runs.CreateRun(runs_pb2.CreateRunRequest(input=asked), metadata=token)),
            (denied, runs.CreateRun(runs_pb2.CreateRunRequest(input=asked, labels={"batch": "other"}), metadata=token)),
            # A request id of the caller's own leads to no run of theirs.
            (
                denied,
                runs.CreateRun(
                    runs_pb2.CreateRunRequest(input=asked, labels=labels, request_id="my-own"), metadata=token
                ),
            ),
            (unknown, runs.ListRuns(runs_pb2.ListRunsRequest(), metadata=token)),
            (unknown, runs.ListDecisions(runs_pb2.ListDecisionsRequest(run_id=item_run), metadata=token)),
            (unknown, threads.ListThreads(threads_pb2.ListThreadsRequest(), metadata=token)),
        ):
            assert await refused(call) is code
        through_gateway = runs_pb2_grpc.RunServiceStub(running.channel)
        call = through_gateway.GetRun(runs_pb2.GetRunRequest(run_id=item_run), metadata=token)
        assert await refused(call) is unknown


async def test_what_a_batch_may_not_have_is_told_by_number(running: Platform) -> None:
    batches = Batches(running, "27")
    request_id = "the-same"
    created = await batches.call("CreateBatch", batches_pb2.CreateBatchRequest(request_id=request_id, name="one"))
    again = await batches.call("CreateBatch", batches_pb2.CreateBatchRequest(request_id=request_id, name="one"))
    assert again.batch.batch_id == created.batch.batch_id
    batch_id = created.batch.batch_id

    async def refused(*items: batches_pb2.NewBatchItem) -> Any:
        add = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=1, items=items)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await batches.call("AddBatchItems", add)
        return error_detail(error.value)

    wrong = await refused(item(QUESTION), item(""), item("a\x00b"))
    told = {each.field for each in wrong.violations}
    assert told == {"items[1].input.data_chat.question", "items[2].input.data_chat.question"}
    empty = await refused(item(QUESTION), batches_pb2.NewBatchItem(key="nothing"))
    assert [each.field for each in empty.violations] == ["items[1].input"]
    assert [each.field for each in (await refused(item(QUESTION, key="\x1b[2J"))).violations] == ["items[0].key"]
    many = await refused(*[item(QUESTION)] * 51)
    assert many.reason == "BATCH_TOO_LARGE"
    batch = (await batches.call("GetBatch", batches_pb2.GetBatchRequest(batch_id=batch_id))).batch
    assert batch.item_count == 0
    others = [await batches.uploaded([QUESTION]) for _ in range(2)]
    with pytest.raises(grpc.aio.AioRpcError) as full:
        await batches.call("CreateBatch", batches_pb2.CreateBatchRequest())
    assert error_detail(full.value).reason == "TOO_MANY_BATCHES"
    for each in (batch_id, *others):
        await batches.call("CancelBatch", batches_pb2.CancelBatchRequest(batch_id=each))


async def test_a_batch_goes_on_when_its_service_is_killed(running: Platform) -> None:
    batches = Batches(running, "27")
    batch_id = await batches.started([QUESTION] * 30, max_runs=4)
    ends: Counter[int] = Counter()
    after = 0
    async with asyncio.timeout(TIMEOUT_S):
        for until in (4, 10, 16, 30):
            request = batches_pb2.WatchBatchRequest(batch_id=batch_id, after_sequence=after)
            stream = batches.stub.WatchBatch(request, metadata=batches.metadata)
            async for told in stream:
                if told.HasField("item_ended"):
                    ends[told.item_ended.item.number] += 1
                    after = told.item_ended.sequence
                    if ends.total() >= until:
                        break
            stream.cancel()
            if until < 30:
                service = running.stack.service("batches")
                await service.kill()
                await service.start()
    assert ends == Counter(range(1, 31))
    assert (await batches.ended(batch_id)).state == ENDED
    listed = await running.caller("27").run_pages(runs_pb2.ListRunsRequest(page_size=100, labels={"batch": batch_id}))
    assert len([run for page in listed for run in page]) == 30
