"""What the gateway is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from signalbox.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    batches_pb2,
    batches_pb2_grpc,
    maintenance_pb2,
    maintenance_pb2_grpc,
    questions_pb2,
    questions_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    store_pb2,
    store_pb2_grpc,
    threads_pb2,
    threads_pb2_grpc,
)

from services.gateway.authentication import Authenticator
from services.gateway.batches import BatchForwarder, BatchServicer
from services.gateway.entrance import Entrance
from services.gateway.errors import KeysUnavailable
from services.gateway.forwarded_service import ForwardedService
from services.gateway.forwarding import RunForwarder
from services.gateway.issuer_keys import IssuerKeys, JwksFile, JwksUrl
from services.gateway.quota import Quota, Quotas
from services.gateway.recovery import RecoveryPolicy
from services.gateway.redaction import Redaction
from services.gateway.redaction_rules import RedactionRules, load_redaction_rules
from services.gateway.servicer import RunServicer
from services.gateway.settings import GatewaySettings
from services.gateway.tracing import link_callers
from services.gateway.validation import RequestReader
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.settings import refuse
from services.kit.telemetry.names import AUDIENCE_BATCHES, ROLE_OPERATOR
from services.kit.text.policy_file import PolicyFileError
from services.kit.wire.client import connect
from services.kit.wire.needs import looked_for, needed, needed_text
from services.kit.wire.server import Service


async def build(settings: GatewaySettings, stack: AsyncExitStack) -> Service:
    """Puts the gateway together; the channel to the runtime closes with the stack."""
    if not settings.adopt_traceparent:
        link_callers()
    channel = await stack.enter_async_context(looked_for("the runtime", connect(settings.runtime_target, settings)))
    runtime = runs_pb2_grpc.RunServiceStub(channel)
    minter = CallerTokenMinter(
        await needed_text(settings.caller_token_private_key_file), ttl_s=settings.caller_token_ttl_s
    )
    quotas = Quotas(
        Quota(
            requests_per_minute=settings.quota_requests_per_minute,
            burst=settings.quota_burst,
            concurrent_streams=settings.quota_concurrent_streams,
        )
    )
    forwarder = RunForwarder(runtime, minter, RecoveryPolicy(recovery_s=settings.recovery_s))
    redaction = Redaction(_rules(settings), most_bytes=settings.max_message_bytes)
    entrance = Entrance(
        Authenticator(await _issuer_keys(settings, stack), settings), quotas, RequestReader(), redaction
    )
    forwarded = partial(ForwardedService, entrance=entrance, forwarder=forwarder, redaction=redaction)
    services = [
        forwarded(_service(runs_pb2, "Run"), runtime, own=RunServicer(entrance, forwarder, redaction)),
        forwarded(_service(agents_pb2, "Agent"), agents_pb2_grpc.AgentServiceStub(channel)),
        forwarded(_service(threads_pb2, "Thread"), threads_pb2_grpc.ThreadServiceStub(channel)),
        forwarded(_service(store_pb2, "Store"), store_pb2_grpc.StoreServiceStub(channel)),
        forwarded(
            _service(questions_pb2, "Question"), questions_pb2_grpc.QuestionServiceStub(channel), tells_of_others=True
        ),
        forwarded(
            _service(maintenance_pb2, "Maintenance"),
            maintenance_pb2_grpc.MaintenanceServiceStub(channel),
            role=ROLE_OPERATOR,
        ),
    ]
    batches = await _batches(settings, stack)
    if batches:
        own = BatchServicer(entrance, batches)
        services.append(
            ForwardedService(_service(batches_pb2, "Batch"), batches.stub, entrance, batches, redaction, own=own)
        )

    async def drain() -> None:
        if batches:
            batches.streams.drain()
        forwarder.streams.drain()

    return Service([service.registration() for service in services], drain=drain)


async def _batches(settings: GatewaySettings, stack: AsyncExitStack) -> BatchForwarder | None:
    if not settings.batches_target:
        return None
    channel = connect(settings.batches_target, settings)
    await stack.enter_async_context(looked_for("the service for batches", channel))
    key = await needed_text(settings.caller_token_private_key_file)
    minter = CallerTokenMinter(key, ttl_s=settings.caller_token_ttl_s, audience=AUDIENCE_BATCHES)
    return BatchForwarder(batches_pb2_grpc.BatchServiceStub(channel), minter)


def _rules(settings: GatewaySettings) -> RedactionRules | None:
    if settings.redaction_file is None:
        return None
    try:
        return load_redaction_rules(settings.redaction_file)
    except PolicyFileError as error:
        refuse(str(error).splitlines())


async def _issuer_keys(settings: GatewaySettings, stack: AsyncExitStack) -> IssuerKeys:
    if settings.jwks_file:
        await needed_text(settings.jwks_file)
        return JwksFile(settings.jwks_file)
    keys = JwksUrl(settings.jwks_url)
    await needed(f"the issuer's keys at {settings.jwks_url}", keys.look_again, absent=(KeysUnavailable,))
    await stack.enter_async_context(keys.kept_fresh())
    return keys


def _service(module: Any, noun: str) -> ServiceDescriptor:
    descriptor: ServiceDescriptor = module.DESCRIPTOR.services_by_name[f"{noun}Service"]
    return descriptor
