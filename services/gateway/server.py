"""What the gateway is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import runs_pb2_grpc

from services.gateway.authentication import Authenticator
from services.gateway.forwarding import RunForwarder
from services.gateway.quota import Quota, Quotas
from services.gateway.recovery import RecoveryPolicy
from services.gateway.servicer import SERVICE, GatewayServicer, add_to_server
from services.gateway.settings import GatewaySettings
from services.gateway.validation import RequestReader
from services.kit.client import connect
from services.kit.identity import CallerTokenMinter
from services.kit.server import Registration, Service


async def build(settings: GatewaySettings, stack: AsyncExitStack) -> Service:
    """Put the gateway together; the channel to the runtime closes with the stack."""
    channel = await stack.enter_async_context(connect(settings.runtime_target, settings))
    runtime = runs_pb2_grpc.RunServiceStub(channel)
    minter = CallerTokenMinter(
        settings.caller_token_private_key_file.read_text(encoding="ascii"), ttl_s=settings.caller_token_ttl_s
    )
    quotas = Quotas(
        Quota(
            requests_per_minute=settings.quota_requests_per_minute,
            burst=settings.quota_burst,
            concurrent_streams=settings.quota_concurrent_streams,
        )
    )
    forwarder = RunForwarder(runtime, minter, RecoveryPolicy(recovery_s=settings.recovery_s))
    servicer = GatewayServicer(Authenticator.from_settings(settings), quotas, RequestReader(), runtime, forwarder)
    return Service([Registration(add_to_server, servicer, SERVICE.full_name)])
