"""Items that come with the truth, with an answer, with labels: what runs, what counts, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from prometheus_client import REGISTRY
from signalbox.v1 import batches_pb2, batches_pb2_grpc, runs_pb2, sast_pb2

from services.batches.answers import new_item, problems_of
from services.batches.errors import BatchNotFound, BatchRequestReused, BatchTooLarge, TooManyBatches
from services.batches.records import BatchState, ItemState
from services.batches.servicer import BatchServicer
from services.cli.batch_client import BatchClient
from services.cli.client import Connection
from services.cli.errors import CliError
from services.kit.confusion import Confusion
from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter, CallerTokenVerifier
from services.kit.identity.keys import generate_keypair
from services.kit.settings import ServiceSettings
from services.kit.wire.server import Registration, Service, running
from services.kit.wire.tasks import stop
from tests.integration.batches.test_pacing import CALLER, LIMITS, PATIENCE_S, Platform, open_platform

__all__ = ["open_platform"]
TRUE, FALSE = sast_pb2.VERDICT_TRUE_POSITIVE, sast_pb2.VERDICT_FALSE_POSITIVE
KEYS = generate_keypair()
AUDIENCE = "signalbox-batches"


def finding(number: int, rule: str = "B602", **fields: Any) -> batches_pb2.NewBatchItem:
    """An item that asks about a finding."""
    asked = sast_pb2.Finding(
        fingerprint=f"f-{number}", rule_id=rule, location=sast_pb2.CodeLocation(file="a.py", first_line=number)
    )
    source = sast_pb2.CodeSource(repository="/repository", commit="0" * 40)
    given = runs_pb2.RunInput(sast_investigation=sast_pb2.SastInvestigationInput(finding=asked, source=source))
    return batches_pb2.NewBatchItem(key=f"f-{number}", input=given, **fields)


def settled(verdict: sast_pb2.Verdict, by: batches_pb2.SettledBy) -> batches_pb2.Settled:
    """An answer that an item comes with."""
    output = sast_pb2.SastInvestigationOutput(verdict=verdict, justification="as was said")
    return batches_pb2.Settled(by=by, output=runs_pb2.RunOutput(sast_investigation=output))


class Client:
    """BatchService as the gateway calls it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = batches_pb2_grpc.BatchServiceStub(channel)
        minter = CallerTokenMinter(KEYS.private_pem, ttl_s=60, audience=AUDIENCE)
        self.metadata = (bearer_metadata(minter.mint(CALLER)),)

    async def started(self, items: list[batches_pb2.NewBatchItem]) -> str:
        """Starts a batch of these."""
        created = await self.stub.CreateBatch(batches_pb2.CreateBatchRequest(), metadata=self.metadata)
        batch_id: str = created.batch.batch_id
        add = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=1, items=items)
        for _ in range(2):  # a repeat changes nothing
            await self.stub.AddBatchItems(add, metadata=self.metadata)
        start = batches_pb2.StartBatchRequest(batch_id=batch_id, item_count=len(items))
        await self.stub.StartBatch(start, metadata=self.metadata)
        return batch_id

    async def export(self, batch_id: str, **fields: Any) -> list[batches_pb2.BatchItem]:
        """The items of a batch."""
        request = batches_pb2.ExportBatchRequest(batch_id=batch_id, **fields)
        return [told.item async for told in self.stub.ExportBatch(request, metadata=self.metadata)]


@pytest.fixture
async def served(open_platform: Callable[..., Awaitable[Platform]]) -> Any:
    """A platform, and the service over it."""
    platform = await open_platform()
    async with serving(platform) as channel:
        yield platform, Client(channel)


@asynccontextmanager
async def serving(platform: Platform) -> AsyncIterator[grpc.aio.Channel]:
    """Serves the batches of a platform inside the context."""
    verifier = CallerTokenVerifier(KEYS.public_pem, AUDIENCE)
    servicer = BatchServicer(platform.store, verifier, lambda: None)
    add = batches_pb2_grpc.add_BatchServiceServicer_to_server

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        return Service([Registration(add, servicer, "signalbox.v1.BatchService")])

    async with (
        running("batches", ServiceSettings(shutdown_grace_s=1), build) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        yield channel


async def test_only_what_has_no_answer_is_run_and_the_rest_is_told_as_it_came(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, client = served
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    monkeypatch.setattr("services.kit.telemetry.evaluations.logs.get_logger", provider.get_logger)
    platform.runtime.verdicts = {"f-1": TRUE, "f-2": FALSE, "f-3": FALSE}
    items = [
        finding(1, truth=TRUE, labels={"team": "payments"}),
        finding(2, truth=TRUE),
        finding(3, rule="B101", truth=FALSE),
        finding(4, truth=FALSE, settled=settled(FALSE, batches_pb2.SETTLED_BY_KNOWN_FALSE_POSITIVE)),
        finding(5, truth=TRUE, settled=settled(FALSE, batches_pb2.SETTLED_BY_PERSON)),
    ]

    def evaluations(name: str) -> list[dict[str, Any]]:
        told = [dict(each.log_record.attributes or {}) for each in exporter.get_finished_logs()]
        return [each for each in told if each["gen_ai.evaluation.name"] == name]

    def verdicts(rule: str, truth: str, verdict: str) -> float:
        labels = {"rule": rule, "truth": truth, "verdict": verdict}
        return REGISTRY.get_sample_value("signalbox_batch_verdicts_total", labels) or 0.0

    cells = [("B602", "vulnerable", "true_positive"), ("B602", "vulnerable", "false_positive")]
    cells += [("B101", "harmless", "false_positive"), ("B101", "vulnerable", "false_positive")]
    before = [verdicts(*cell) for cell in cells]
    replica = platform.replica()
    batch_id = await client.started(items)
    await platform.over(batch_id)
    async with asyncio.timeout(PATIENCE_S):
        while len(evaluations("recall")) < 2:  # noqa: ASYNC110 - the scores are told behind the end
            await asyncio.sleep(0.02)
    await stop(replica)

    asked = {run.input.sast_investigation.finding.fingerprint: run for run in platform.runtime.runs.values()}
    assert set(asked) == {"f-1", "f-2", "f-3"}
    assert dict(asked["f-1"].labels) == {"team": "payments", "batch": batch_id}
    told = await client.export(batch_id, with_inputs=True)
    assert [item.state for item in told] == [batches_pb2.BATCH_ITEM_STATE_SUCCEEDED] * 3 + [
        batches_pb2.BATCH_ITEM_STATE_SETTLED
    ] * 2
    assert [item.input for item in told] == [item.input for item in items]
    assert [item.truth for item in told] == [item.truth for item in items]
    assert told[3].run.output == items[3].settled.output
    assert told[4].settled_by == batches_pb2.SETTLED_BY_PERSON

    request = batches_pb2.GetBatchRequest(batch_id=batch_id)
    scores = (await client.stub.GetBatch(request, metadata=client.metadata)).batch.scores
    matrix = scores.total
    assert (matrix.true_positives, matrix.false_negatives, matrix.true_negatives) == (1, 1, 2)
    assert (matrix.precision, matrix.recall) == (1.0, 0.5)
    assert [(each.rule_id, each.true_negatives) for each in scores.by_rule] == [("B602", 1), ("B101", 1)]

    labels = [str(each["gen_ai.evaluation.score.label"]) for each in evaluations("verdict")]
    assert sorted(labels) == ["right", "right", "wrong"]
    assert [verdicts(*cell) - was for cell, was in zip(cells, before, strict=True)] == [1, 1, 1, 0]
    recall = {
        each.get("signalbox.finding_rule", ""): each["gen_ai.evaluation.score.value"] for each in evaluations("recall")
    }
    assert recall == {"": 0.5, "B602": 0.5}


@pytest.mark.parametrize(
    "item",
    [
        batches_pb2.NewBatchItem(
            input=runs_pb2.RunInput(data_chat={"question": "how many?"}),
            truth=TRUE,
        ),
        finding(1, settled=batches_pb2.Settled(output=runs_pb2.RunOutput(data_chat={"answer": "3"}))),
        batches_pb2.NewBatchItem(
            input=runs_pb2.RunInput(graph={"agent": "weather"}),
            settled=batches_pb2.Settled(output=runs_pb2.RunOutput(graph={"agent": "tides"})),
        ),
        batches_pb2.NewBatchItem(input=runs_pb2.RunInput()),
    ],
)
async def test_what_does_not_go_together_is_refused_with_its_place(served: Any, item: batches_pb2.NewBatchItem) -> None:
    _, client = served
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.started([finding(7), item])
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [each.field.split(".")[0] for each in error_detail(refused.value).violations] == ["items[1]"]


async def test_a_batch_that_has_ended_can_be_deleted_and_one_under_way_can_not(served: Any) -> None:
    platform, client = served
    batch_id = await client.started([finding(1)])
    delete = batches_pb2.DeleteBatchRequest(batch_id=batch_id)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.stub.DeleteBatch(delete, metadata=client.metadata)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    replica = platform.replica()
    await platform.over(batch_id)
    await stop(replica)
    await client.stub.DeleteBatch(delete, metadata=client.metadata)
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await client.stub.GetBatch(batches_pb2.GetBatchRequest(batch_id=batch_id), metadata=client.metadata)
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_rule_is_kept_without_what_a_database_does_not_take(served: Any) -> None:
    platform, client = served
    batch_id = await client.started([finding(1, "B6\x0002", truth=TRUE)])
    await platform.store.cancel(CALLER, batch_id)
    replica = platform.replica()
    await platform.over(batch_id)
    await stop(replica)
    assert (await platform.store.scores(batch_id)).by_rule == {"B602": Confusion(review_vulnerable=1)}


def test_an_answer_of_a_hosted_graph_is_a_run_of_that_agent() -> None:
    given = batches_pb2.NewBatchItem(
        input=runs_pb2.RunInput(graph={"agent": "weather"}),
        settled=batches_pb2.Settled(output=runs_pb2.RunOutput(graph={"agent": "weather"})),
    )
    assert problems_of(given, "items[0]") == []
    assert runs_pb2.Run.FromString(new_item(given).run or b"").agent == "weather"


async def test_a_batch_that_is_cancelled_in_its_upload_ends_what_is_there_and_can_be_run_again(served: Any) -> None:
    platform, client = served
    created = await client.stub.CreateBatch(batches_pb2.CreateBatchRequest(), metadata=client.metadata)
    batch_id = created.batch.batch_id
    known = settled(FALSE, batches_pb2.SETTLED_BY_KNOWN_FALSE_POSITIVE)
    items = [finding(1, truth=TRUE), finding(2, settled=known), finding(3)]
    add = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=1, items=items)
    await client.stub.AddBatchItems(add, metadata=client.metadata)
    cancelled = await platform.store.cancel(CALLER, batch_id)
    assert cancelled.state is BatchState.CANCELLED
    assert cancelled.counts == {ItemState.SETTLED: 1, ItemState.CANCELLED: 2}
    ends = await platform.store.ended(batch_id, 0, 10, with_runs=False)
    assert [(each.number, each.ended_as) for each in ends] == [(2, 1), (1, 2), (3, 3)]
    assert (await platform.store.scores(batch_id)).total == Confusion(review_vulnerable=1)
    assert (await platform.store.retry(CALLER, batch_id))[1] == 2
    replica = platform.replica()
    batch = await platform.over(batch_id)
    await stop(replica)
    assert (batch.state, batch.counts) == (BatchState.ENDED, {ItemState.SETTLED: 1, ItemState.SUCCEEDED: 2})


@pytest.mark.parametrize(
    "item",
    [
        finding(1, rule="B" * 70_000),
        finding(1, settled=batches_pb2.Settled(
            by=batches_pb2.SETTLED_BY_PERSON,
            output=runs_pb2.RunOutput(
                sast_investigation=sast_pb2.SastInvestigationOutput(verdict=TRUE, justification="x" * 70_000)
            ),
        )),
    ],
    ids=["input", "answer"],
)  # fmt: skip
async def test_a_huge_item_is_refused_with_its_place_and_nothing_is_added(
    served: Any, item: batches_pb2.NewBatchItem
) -> None:
    _, client = served
    created = await client.stub.CreateBatch(batches_pb2.CreateBatchRequest(), metadata=client.metadata)
    add = batches_pb2.AddBatchItemsRequest(batch_id=created.batch.batch_id, first_number=1, items=[finding(7), item])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.stub.AddBatchItems(add, metadata=client.metadata)
    assert [each.field for each in error_detail(refused.value).violations] == ["items[1].input"]
    get = batches_pb2.GetBatchRequest(batch_id=created.batch.batch_id)
    assert (await client.stub.GetBatch(get, metadata=client.metadata)).batch.item_count == 0


async def test_items_and_batches_of_a_caller_are_bounded(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform(items=3)
    given = [new_item(finding(number)) for number in range(1, 5)]
    batch = await platform.store.create(CALLER, request_id="", name="", max_runs=0)
    assert await platform.store.add(CALLER, batch.batch_id, 1, given[:3]) == 3
    with pytest.raises(BatchTooLarge):
        await platform.store.add(CALLER, batch.batch_id, 4, given[3:])
    made = await asyncio.gather(
        *(platform.store.create(CALLER, request_id="", name="", max_runs=0) for _ in range(100)), return_exceptions=True
    )
    assert sum(not isinstance(each, BaseException) for each in made) == LIMITS.at_once - 1
    assert {type(each) for each in made if isinstance(each, BaseException)} == {TooManyBatches}


@pytest.mark.parametrize("limits", [{"items": 2}, {"bytes": 200}])
async def test_what_is_too_large_for_a_batch_is_told_and_leaves_none(
    open_platform: Callable[..., Awaitable[Platform]], limits: dict[str, int]
) -> None:
    platform = await open_platform(**limits)
    async with serving(platform) as channel:
        token = CallerTokenMinter(KEYS.private_pem, ttl_s=60, audience=AUDIENCE).mint(CALLER)
        with pytest.raises(CliError, match=r"a batch may have") as refused:
            await BatchClient(channel, Connection("the gateway", token)).upload(
                [finding(number) for number in range(3)]
            )
    assert "split it" in refused.value.hint
    assert await platform.store.page(CALLER, subject="", before=None, limit=10) == []


async def test_two_who_are_given_the_same_at_once_have_one_batch(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, client = served
    monkeypatch.setattr("services.cli.batch_client.PART_ITEMS", 1)
    token = CallerTokenMinter(KEYS.private_pem, ttl_s=60, audience=AUDIENCE).mint(CALLER)
    items = [finding(number) for number in range(1, 21)]
    async with serving(platform) as channel:
        both = [BatchClient(channel, Connection("the gateway", token)).upload(items) for _ in range(2)]
        started = await asyncio.gather(*both)
    assert {(batch.state, batch.item_count) for batch in started} == {(batches_pb2.BATCH_STATE_RUNNING, 20)}
    assert len({batch.batch_id for batch in started}) == 1
    assert [item.key for item in await client.export(started[0].batch_id)] == [item.key for item in items]


async def test_an_export_of_a_batch_that_is_deleted_meanwhile_does_not_end_as_if_it_were_whole(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, client = served
    monkeypatch.setattr("services.batches.servicer.ITEMS_READ", 1)
    batch_id = await client.started([finding(1), finding(2)])
    await platform.store.cancel(CALLER, batch_id)
    replica = platform.replica()
    await platform.over(batch_id)
    await stop(replica)
    items = platform.store.items

    async def deleted_behind_the_first(*asked: Any, **fields: Any) -> Any:
        found = await items(*asked, **fields)
        if found:
            await platform.store.delete(CALLER, batch_id)
        return found

    monkeypatch.setattr(platform.store, "items", deleted_behind_the_first)
    with pytest.raises(grpc.aio.AioRpcError) as cut:
        await client.export(batch_id)
    assert cut.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_request_is_of_one_batch_however_many_runs_it_asks_for(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    made = [await platform.store.create(CALLER, request_id="the-same", name="", max_runs=most) for most in (2, 0)]
    assert {(batch.batch_id, batch.max_runs) for batch in made} == {(made[0].batch_id, 2)}
    with pytest.raises(BatchRequestReused):
        await platform.store.create(CALLER, request_id="the-same", name="other", max_runs=2)


async def test_an_upload_that_stopped_goes_on_elsewhere_and_takes_nothing_else_for_the_same(served: Any) -> None:
    platform, client = served
    created = await client.stub.CreateBatch(batches_pb2.CreateBatchRequest(), metadata=client.metadata)
    batch_id = created.batch.batch_id

    async def add(first: int, *items: batches_pb2.NewBatchItem) -> int:
        request = batches_pb2.AddBatchItemsRequest(batch_id=batch_id, first_number=first, items=items)
        return int((await client.stub.AddBatchItems(request, metadata=client.metadata)).item_count)

    assert await add(1, finding(1), finding(2, truth=TRUE)) == 2
    # Another machine does not know how far the first one came, and begins anew.
    assert await add(1, finding(1), finding(2, truth=TRUE), finding(3)) == 3
    for other in (finding(2), finding(2, truth=FALSE), finding(2, truth=TRUE, labels={"team": "other"})):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await add(2, other)
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await add(5, finding(5))
    assert error_detail(missing.value).metadata["item_count"] == "3"
    # Of another caller it is not there, whatever is asked of it.
    stranger = Caller("28")
    for call in (platform.store.delete(stranger, batch_id), platform.store.get(stranger, batch_id)):
        with pytest.raises(BatchNotFound):
            await call
