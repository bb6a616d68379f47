"""BatchService as the gateway calls it: protos to batches and back, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from uuid import UUID

import grpc
from signalbox.v1 import batches_pb2, batches_pb2_grpc

from services.batches.answers import new_item, problems_of
from services.batches.errors import BatchesDraining, BatchNotFound
from services.batches.records import OVER, BatchRecord
from services.batches.scores import scores_proto
from services.batches.store import BatchStore
from services.batches.wire import batch_proto, item_proto
from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenVerifier

Context = grpc.aio.ServicerContext[Any, Any]
BATCHES_PAGE: Final = 50
# Items that are read at once, at the most; and how often a watch looks for more.
ITEMS_READ: Final = 20
WATCH_S: Final = 0.5


class BatchServicer(batches_pb2_grpc.BatchServiceServicer):
    """Serves batches; `started` is called when one has something to run."""

    def __init__(self, store: BatchStore, verifier: CallerTokenVerifier, started: Callable[[], None]) -> None:
        self._store = store
        self._verifier = verifier
        self._started = started
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Ends every watch; its caller goes on at another replica."""
        self._draining.set()

    async def CreateBatch(
        self, request: batches_pb2.CreateBatchRequest, context: Context
    ) -> batches_pb2.CreateBatchResponse:
        """Creates a batch without items."""
        batch = await self._store.create(
            self._caller(context),
            request_id=request.request_id,
            name=request.name,
            max_runs=request.max_runs,
            item_count=request.item_count,
        )
        return batches_pb2.CreateBatchResponse(batch=batch_proto(batch))

    async def AddBatchItems(
        self, request: batches_pb2.AddBatchItemsRequest, context: Context
    ) -> batches_pb2.AddBatchItemsResponse:
        """Adds items to a batch that is not started yet."""
        violations = [
            problem for index, item in enumerate(request.items) for problem in problems_of(item, f"items[{index}]")
        ]
        if violations:
            raise InvalidRequest("items do not go together with what they came with", violations=violations)
        items = [new_item(item) for item in request.items]
        count = await self._store.add(self._caller(context), request.batch_id, request.first_number, items)
        return batches_pb2.AddBatchItemsResponse(item_count=count)

    async def StartBatch(
        self, request: batches_pb2.StartBatchRequest, context: Context
    ) -> batches_pb2.StartBatchResponse:
        """Starts a batch that has all its items."""
        batch = await self._store.start(self._caller(context), request.batch_id, request.item_count)
        self._started()
        return batches_pb2.StartBatchResponse(batch=batch_proto(batch))

    async def GetBatch(self, request: batches_pb2.GetBatchRequest, context: Context) -> batches_pb2.GetBatchResponse:
        """Returns a batch."""
        batch = await self._store.get(self._caller(context), request.batch_id)
        return batches_pb2.GetBatchResponse(batch=await self._scored(batch))

    async def ListBatches(
        self, request: batches_pb2.ListBatchesRequest, context: Context
    ) -> batches_pb2.ListBatchesResponse:
        """Lists batches, newest first."""
        limit = request.page_size or BATCHES_PAGE
        found = await self._store.page(
            self._caller(context), subject=request.subject, before=_place_of(request.page_token), limit=limit + 1
        )
        token = found[limit - 1].batch_id if len(found) > limit else ""
        return batches_pb2.ListBatchesResponse(batches=map(batch_proto, found[:limit]), next_page_token=token)

    async def WatchBatch(
        self, request: batches_pb2.WatchBatchRequest, context: Context
    ) -> AsyncIterator[batches_pb2.WatchBatchResponse]:
        """Streams how far a batch has come, and items as they end, until all have."""
        caller = self._caller(context)
        told, after = None, request.after_sequence
        while True:
            batch = await self._store.get(caller, request.batch_id)
            proto = batch_proto(batch)
            if told is None and batch.state not in OVER:
                told = proto
                yield batches_pb2.WatchBatchResponse(batch=proto)
            while after < batch.ended_sequence:
                ended = await self._store.ended(batch.batch_id, after, ITEMS_READ, with_runs=request.with_runs)
                if not ended:
                    break  # it was deleted, or is run again
                for item in ended:
                    after = item.ended_as
                    sent = item_proto(item, caller, with_run=request.with_runs)
                    yield batches_pb2.WatchBatchResponse(
                        item_ended=batches_pb2.BatchItemEnded(sequence=item.ended_as, item=sent)
                    )
            if batch.state in OVER:
                yield batches_pb2.WatchBatchResponse(batch=await self._scored(batch))
                return
            if proto != told:
                told = proto
                yield batches_pb2.WatchBatchResponse(batch=proto)
            await self._pause()

    async def CancelBatch(
        self, request: batches_pb2.CancelBatchRequest, context: Context
    ) -> batches_pb2.CancelBatchResponse:
        """Asks a batch to stop."""
        batch = await self._store.cancel(self._caller(context), request.batch_id)
        return batches_pb2.CancelBatchResponse(batch=batch_proto(batch))

    async def DeleteBatch(
        self, request: batches_pb2.DeleteBatchRequest, context: Context
    ) -> batches_pb2.DeleteBatchResponse:
        """Deletes a batch that is not under way."""
        await self._store.delete(self._caller(context), request.batch_id)
        return batches_pb2.DeleteBatchResponse()

    async def RetryBatch(
        self, request: batches_pb2.RetryBatchRequest, context: Context
    ) -> batches_pb2.RetryBatchResponse:
        """Has items run again that failed, were refused or cancelled."""
        batch, count = await self._store.retry(self._caller(context), request.batch_id)
        self._started()
        return batches_pb2.RetryBatchResponse(batch=batch_proto(batch), retried_count=count)

    async def ExportBatch(
        self, request: batches_pb2.ExportBatchRequest, context: Context
    ) -> AsyncIterator[batches_pb2.ExportBatchResponse]:
        """Streams the items of a batch in their order."""
        caller, after = self._caller(context), request.after_number
        batch = await self._store.get(caller, request.batch_id)
        inputs = request.with_inputs
        while items := await self._store.items(batch.batch_id, after, ITEMS_READ, with_inputs=inputs):
            for item in items:
                sent = item_proto(item, caller, with_run=True)
                yield batches_pb2.ExportBatchResponse(item=sent)
            after = items[-1].number
        if after < batch.item_count:
            # An end of the stream would be taken for the end of the batch.
            raise BatchNotFound("the batch was deleted before all of it was sent")

    async def _scored(self, batch: BatchRecord) -> batches_pb2.Batch:
        proto = batch_proto(batch)
        scores = await self._store.scores(batch.batch_id)
        if scores.by_rule:
            proto.scores.CopyFrom(scores_proto(scores))
        return proto

    def _caller(self, context: Context) -> Caller:
        return self._verifier.verify(bearer_token(context.invocation_metadata()))

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(WATCH_S):
                await self._draining.wait()
        except TimeoutError:
            return
        told = "this replica is shutting down; watch again behind the last item received"
        raise BatchesDraining(told, retry_after_s=0.1)


def _place_of(token: str) -> str | None:
    """Returns the id that a page begins behind. Raises InvalidRequest."""
    if not token:
        return None
    try:
        return str(UUID(token))
    except ValueError as error:
        wrong = FieldViolation("page_token", "is not one that a page came with")
        raise InvalidRequest("the request breaks its rules: page_token", violations=[wrong]) from error
