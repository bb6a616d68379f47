"""Batches as who waits for them sees them."""

from __future__ import annotations

from signalbox.v1 import batches_pb2

from services.cli.batch_client import open_batches
from services.cli.batch_results import form_of
from services.cli.client import Connection
from tests.chaos.deployment import until


async def reached(connection: Connection, name: str, count: int, *, timeout_s: float) -> batches_pb2.Batch:
    """The newest batch, once it is of a name and so many of its items have ended."""
    found: list[batches_pb2.Batch] = []

    async def there() -> bool:
        found[:] = await batches.listed("", 1)
        return bool(found) and found[0].name == name and _ended(found[0]) >= count

    async with open_batches(connection) as batches:
        await until(there, f"{count} items of the batch {name}", timeout_s=timeout_s)
    return found[0]


def _ended(batch: batches_pb2.Batch) -> int:
    under_way = (batches_pb2.BATCH_ITEM_STATE_PENDING, batches_pb2.BATCH_ITEM_STATE_RUNNING)
    return sum(each.count for each in batch.counts if each.state not in under_way)


async def results(connection: Connection, batch_id: str) -> str:
    """The results of a batch as a file, without ids of runs."""
    form = form_of("json", with_run_ids=False)
    async with open_batches(connection) as batches:
        return "".join([form.line(item) async for item in batches.items(batch_id)])
