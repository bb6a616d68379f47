"""Composition root of the service for batches."""

from __future__ import annotations

from contextlib import AsyncExitStack

import psycopg
from psycopg_pool import PoolTimeout
from signalbox.v1 import batches_pb2_grpc, runs_pb2_grpc

from services.batches.claims import BatchClaims
from services.batches.database import open_pool
from services.batches.pacer import Pacing
from services.batches.servicer import BatchServicer
from services.batches.settings import BatchesSettings
from services.batches.store import BatchLimits, BatchStore
from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.kit.telemetry.evaluations import export_results
from services.kit.telemetry.names import AUDIENCE_BATCHES
from services.kit.wire.client import connect
from services.kit.wire.needs import looked_for, needed, needed_text
from services.kit.wire.server import Registration, Service
from services.kit.wire.tasks import detached, stop

HOUR_S = 3600


async def build(settings: BatchesSettings, stack: AsyncExitStack) -> Service:
    """Wires the service: database, runtime, pacing, servicer."""
    export_results("batches", settings.otlp_endpoint, stack)
    dsn = settings.database_dsn.get_secret_value()
    verifier = CallerTokenVerifier(await needed_text(settings.caller_token_public_key_file), AUDIENCE_BATCHES)
    private_pem = await needed_text(settings.batch_token_private_key_file)
    pool = await needed(
        "the platform database",
        lambda: stack.enter_async_context(open_pool(dsn, size=settings.database_pool_size)),
        absent=(psycopg.OperationalError, PoolTimeout),
    )
    channel = await stack.enter_async_context(looked_for("the runtime", connect(settings.runtime_target, settings)))
    limits = BatchLimits(
        share=settings.batch_share,
        items=settings.batch_most_items,
        bytes=settings.batch_most_bytes,
        item_bytes=settings.batch_most_item_bytes,
        at_once=settings.batches_at_once,
        life_s=settings.batch_life_hours * HOUR_S,
        kept_s=settings.batch_kept_hours * HOUR_S,
    )
    claims = BatchClaims(pool, lease_s=settings.batch_lease_s, kept_s=limits.kept_s)
    pacing = Pacing(claims, runs_pb2_grpc.RunServiceStub(channel), private_pem, most=settings.batches_paced)
    working = detached(pacing.run(), name="pacing")
    stack.push_async_callback(stop, working)
    servicer = BatchServicer(BatchStore(pool, limits), verifier, pacing.look)

    async def drain() -> None:
        servicer.drain()
        await stop(working)

    add = batches_pb2_grpc.add_BatchServiceServicer_to_server
    return Service([Registration(add, servicer, "signalbox.v1.BatchService")], drain=drain)
