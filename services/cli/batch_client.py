"""BatchService as the commands need it: uploads that go on where they stopped, and watches that outlive replicas."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import grpc
from rich.text import Text
from signalbox.v1 import batches_pb2, batches_pb2_grpc

from services.cli.client import CALL_TIMEOUT_S, Connection, channel_to
from services.cli.errors import CliError, from_rpc
from services.cli.exit_codes import ExitCode
from services.cli.terminal import Terminal
from services.console.run_names import FEWEST_DIGITS, LAST, is_id, may_name_run
from services.kit.errors import error_detail
from services.kit.wire.pages import listed

# Items and bytes of one part of an upload; a message may have 4 MiB.
PART_ITEMS = 500
PART_BYTES = 2 * 1024 * 1024
# The newest batches that one is looked for among by the beginning of its id.
MOST_NAMED = 1000
# How long a watch that nobody serves is tried again, without news in between.
PATIENCE_S = 60.0
PAUSE_S = 0.5
# The states in which a batch is over, and those of items that can be run again.
OVER = frozenset({batches_pb2.BATCH_STATE_ENDED, batches_pb2.BATCH_STATE_CANCELLED})
FAILED_ITEMS = frozenset(
    {
        batches_pb2.BATCH_ITEM_STATE_FAILED,
        batches_pb2.BATCH_ITEM_STATE_REFUSED,
        batches_pb2.BATCH_ITEM_STATE_CANCELLED,
    }
)
T = TypeVar("T")
_AGAIN = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
)


class _TooLarge(CliError):
    """A batch has more items, or more bytes, than one may have."""


class _StateWrong(CliError):
    """A batch is in another state than a call needs."""


class BatchClient:
    """Every method raises CliError."""

    def __init__(self, channel: grpc.aio.Channel, connection: Connection) -> None:
        self._stub = batches_pb2_grpc.BatchServiceStub(channel)
        self._connection = connection
        self._address = connection.address

    async def upload(
        self, items: Sequence[batches_pb2.NewBatchItem], *, name: str = "", max_runs: int = 0
    ) -> batches_pb2.Batch:
        """Creates a batch, adds its items and starts it; given the same again, it goes on with the batch of before.

        That one keeps the most runs that it had. What is too large leaves no batch behind. Where somebody else, who was
        given the same, started it meanwhile, or cancelled it, that is the batch.
        """
        request = batches_pb2.CreateBatchRequest(
            request_id=_digest(items, name), name=name, max_runs=max_runs, item_count=len(items)
        )
        batch: batches_pb2.Batch = (await self._call(self._stub.CreateBatch, request)).batch
        if batch.state != batches_pb2.BATCH_STATE_UPLOADING:
            return batch
        try:
            for first, part in _parts(items, batch.item_count):
                add = batches_pb2.AddBatchItemsRequest(batch_id=batch.batch_id, first_number=first, items=part)
                await self._call(self._stub.AddBatchItems, add)
            start = batches_pb2.StartBatchRequest(batch_id=batch.batch_id, item_count=len(items))
            batch = (await self._call(self._stub.StartBatch, start)).batch
        except _TooLarge:
            with suppress(CliError):  # what is wrong is that it is too large
                await self.delete(batch.batch_id)
            raise
        except _StateWrong:
            batch = (await self._call(self._stub.CreateBatch, request)).batch
            if batch.state == batches_pb2.BATCH_STATE_UPLOADING:
                raise
        return batch

    async def watch(self, batch_id: str, *, with_runs: bool = False) -> AsyncIterator[batches_pb2.WatchBatchResponse]:
        """Yields how a batch goes until it is over, each end of an item once; what is cut is taken up again."""
        after = 0

        async def once() -> AsyncIterator[batches_pb2.WatchBatchResponse]:
            request = batches_pb2.WatchBatchRequest(batch_id=batch_id, after_sequence=after, with_runs=with_runs)
            async for response in self._stub.WatchBatch(request, metadata=self._connection.metadata):
                yield response

        async for told in self._again(once):
            after = max(after, told.item_ended.sequence)
            yield told

    async def items(self, batch_id: str, *, with_inputs: bool = False) -> AsyncIterator[batches_pb2.BatchItem]:
        """Yields the items of a batch in their order, each with its run as it ended, and with its input if asked."""
        after = 0

        async def once() -> AsyncIterator[batches_pb2.BatchItem]:
            request = batches_pb2.ExportBatchRequest(batch_id=batch_id, after_number=after, with_inputs=with_inputs)
            async for response in self._stub.ExportBatch(request, metadata=self._connection.metadata):
                yield response.item

        async for item in self._again(once):
            after = item.number
            yield item

    async def get(self, batch_id: str) -> batches_pb2.Batch:
        """Returns a batch."""
        request = batches_pb2.GetBatchRequest(batch_id=batch_id)
        batch: batches_pb2.Batch = (await self._call(self._stub.GetBatch, request)).batch
        return batch

    async def listed(self, subject: str, limit: int) -> list[batches_pb2.Batch]:
        """Returns the newest batches, up to a limit."""
        request = batches_pb2.ListBatchesRequest(subject=subject)
        return await listed(lambda page: self._call(self._stub.ListBatches, page), request, "batches", limit=limit)

    async def named(self, name: str) -> str:
        """Returns the id of the batch that is named so, in full, by its beginning or as `last`, of those seen here."""
        if is_id(name):
            return name
        hint = "`signalbox batches list` lists the batches you may see"
        if not may_name_run(name):
            told = f"{name!r} names no batch: give its id, {FEWEST_DIGITS} or more digits of that, or `{LAST}`"
            raise CliError(told, hint=hint, code=ExitCode.USAGE)
        begun = "" if name == LAST else name.lower().replace("-", "")
        newest = await self.listed("", 1 if name == LAST else MOST_NAMED)
        found = [each.batch_id for each in newest if each.batch_id.replace("-", "").startswith(begun)]
        if len(found) == 1 or (found and name == LAST):
            return found[0]
        if found:
            told = f"{name} begins several ids, such as {found[0]} and {found[1]}: give more of it"
        else:
            told = f"of the newest {len(newest)} batches none is named {name}" if newest else "there is no batch yet"
        raise CliError(told, hint=hint, code=ExitCode.USAGE)

    async def cancel(self, batch_id: str) -> batches_pb2.Batch:
        """Asks a batch to stop."""
        request = batches_pb2.CancelBatchRequest(batch_id=batch_id)
        batch: batches_pb2.Batch = (await self._call(self._stub.CancelBatch, request)).batch
        return batch

    async def retry(self, batch_id: str) -> int:
        """Has items run again; returns how many."""
        request = batches_pb2.RetryBatchRequest(batch_id=batch_id)
        return int((await self._call(self._stub.RetryBatch, request)).retried_count)

    async def delete(self, batch_id: str) -> None:
        """Deletes a batch that is not under way."""
        await self._call(self._stub.DeleteBatch, batches_pb2.DeleteBatchRequest(batch_id=batch_id))

    async def _again(self, once: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yields what a stream says, taken up again where it was cut."""
        waited_s = 0.0
        while True:
            try:
                async for said in once():
                    waited_s = 0.0
                    yield said
            except grpc.aio.AioRpcError as error:
                waited_s += PAUSE_S
                if error_detail(error).code not in _AGAIN or waited_s > PATIENCE_S:
                    raise self._worded(error) from error
            else:
                return
            await asyncio.sleep(PAUSE_S)

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, metadata=self._connection.metadata, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise self._worded(error) from error

    def _worded(self, error: grpc.aio.AioRpcError) -> CliError:
        code = error_detail(error).code
        if code is grpc.StatusCode.UNIMPLEMENTED:
            hint = "`signalbox up` starts one; in a cluster, services.batches.enabled=true"
            return CliError("this platform has no service for batches", hint=hint, code=ExitCode.REFUSED)
        worded = from_rpc(error, self._address)
        if error_detail(error).reason == "BATCH_TOO_LARGE":
            hint = "split it, and give each part by itself"
            return _TooLarge(worded.message, hint=hint, code=ExitCode.USAGE)
        if error_detail(error).reason == "BATCH_STATE_WRONG":
            worded = _StateWrong(worded.message, code=worded.code)
        if code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
            worded.hint = "`signalbox batches list` lists the batches that you may see, and their states"
        return worded


@asynccontextmanager
async def open_batches(connection: Connection) -> AsyncIterator[BatchClient]:
    """A client for as long as the context lasts."""
    async with channel_to(connection) as channel:
        yield BatchClient(channel, connection)


UPLOADING = (
    "the batch may have started, or not: `signalbox batches list` tells; this command given again goes on with its "
    "upload, or follows it"
)


@contextmanager
def when_interrupted(terminal: Terminal, told: str) -> Iterator[None]:
    """Says what a command that is interrupted leaves behind."""
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        terminal.err.print(Text(told), soft_wrap=True)
        raise


def _digest(items: Sequence[batches_pb2.NewBatchItem], name: str) -> str:
    digest = hashlib.sha256(f"{name}\0".encode())
    for item in items:
        content = item.SerializeToString(deterministic=True)
        digest.update(len(content).to_bytes(8, "big") + content)
    return f"batch-{digest.hexdigest()[:48]}"


def share_note(batch: batches_pb2.Batch, max_runs: int) -> str:
    """Returns what to say of a batch that runs not as many at once as was asked for; empty where it does."""
    if max_runs in (0, batch.max_runs):
        return ""
    return (
        f"it runs {batch.max_runs} at once at most, and not {max_runs}: a batch keeps what it was made with, which is "
        "no more than the platform's share; another name makes another batch"
    )


def _parts(
    items: Sequence[batches_pb2.NewBatchItem], there: int
) -> Iterator[tuple[int, list[batches_pb2.NewBatchItem]]]:
    """Yields parts of what is not there yet, each with the number of its first item."""
    part: list[batches_pb2.NewBatchItem] = []
    first, size = there + 1, 0
    for item in items[there:]:
        length = item.ByteSize()
        if part and (len(part) == PART_ITEMS or size + length > PART_BYTES):
            yield first, part
            first, part, size = first + len(part), [], 0
        part.append(item)
        size += length
    if part:
        yield first, part
