"""Channels to other services: balanced, bounded by the served call's deadline, and part of its trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from services.kit import deadline
from services.kit.names import RPC_METHOD, RPC_STATUS, RPC_SYSTEM
from services.kit.settings import ServiceSettings
from services.kit.telemetry import tracer

KEEPALIVE_MS = 20_000
# Methods that only read, and those the server makes idempotent by a key: a repeat is safe when the server went away.
SAFE_TO_RETRY: tuple[tuple[str, str], ...] = (
    ("signalbox.v1.RunService", "GetRun"),
    ("signalbox.v1.RunService", "ListRuns"),
    ("signalbox.v1.RunService", "ListDecisions"),
    ("signalbox.v1.RunService", "CancelRun"),
    ("signalbox.v1.ThreadService", "ListThreads"),
    ("signalbox.v1.ThreadService", "GetThread"),
    ("signalbox.v1.ThreadService", "GetThreadState"),
    ("signalbox.v1.MaintenanceService", "Prune"),
    ("signalbox.v1.MaintenanceService", "ReplayDecisions"),
    ("signalbox.v1.GuardService", "Screen"),
    ("signalbox.v1.EvaluatorService", "EvaluateInvestigation"),
    ("signalbox.v1.EvaluatorService", "CritiqueVerdict"),
    ("signalbox.v1.ToolExecutorService", "ListTools"),
    ("signalbox.v1.ToolExecutorService", "CallTool"),
)
SERVICE_CONFIG = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [{"service": service, "method": method} for service, method in SAFE_TO_RETRY],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    # CANCELLED is what a server that has begun to stop says to calls that still arrive.
                    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
                },
            }
        ],
    }
)


def connect(target: str, settings: ServiceSettings) -> grpc.aio.Channel:
    """Opens a channel to a target: `dns:///guard:8443`, `ipv4:127.0.0.1:1,127.0.0.1:2`. The caller closes it."""
    options = [
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.enable_retries", 1),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # A replica that comes back is found within a second, not after two minutes of backoff.
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
    ]
    interceptors: Sequence[grpc.aio.ClientInterceptor] = [UnaryTracing(), StreamTracing()]
    if settings.tls_cert and settings.tls_key and settings.tls_ca:
        credentials = grpc.ssl_channel_credentials(
            settings.tls_ca.read_bytes(), settings.tls_key.read_bytes(), settings.tls_cert.read_bytes()
        )
        return grpc.aio.secure_channel(target, credentials, options=options, interceptors=interceptors)
    return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)


def _start(details: grpc.aio.ClientCallDetails) -> tuple[trace.Span, grpc.aio.ClientCallDetails]:
    method = details.method.decode() if isinstance(details.method, bytes) else details.method
    span = tracer().start_span(
        method.lstrip("/"), kind=SpanKind.CLIENT, attributes={RPC_SYSTEM: "grpc", RPC_METHOD: method}
    )
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *carrier.items())
    outgoing = grpc.aio.ClientCallDetails(
        method=details.method,
        timeout=deadline.remaining(details.timeout),
        metadata=metadata,
        credentials=details.credentials,
        wait_for_ready=details.wait_for_ready,
    )
    return span, outgoing


def _end(span: trace.Span, code: grpc.StatusCode) -> None:
    span.set_attribute(RPC_STATUS, code.value[0])
    if code is not grpc.StatusCode.OK:
        span.set_status(Status(StatusCode.ERROR, code.name))
    span.end()


class UnaryTracing(grpc.aio.UnaryUnaryClientInterceptor):
    """Gives each unary call a span, the trace context and what is left of the deadline."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Makes the call; the span ends with it, also when it is cancelled."""
        span, details = _start(client_call_details)
        code = grpc.StatusCode.CANCELLED
        call = await continuation(details, request)
        try:
            code = await call.code()
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            _end(span, code)
        return call


class StreamTracing(grpc.aio.UnaryStreamClientInterceptor):
    """Gives each streamed answer a span, the trace context and what is left of the deadline."""

    async def intercept_unary_stream(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> AsyncIterator[Any]:
        """Makes the call; the span ends when the stream does, also when its reader goes away."""
        span, details = _start(client_call_details)
        call = await continuation(details, request)
        return _responses(call, span)


async def _responses(call: Any, span: trace.Span) -> AsyncIterator[Any]:
    code = grpc.StatusCode.CANCELLED
    try:
        async for response in call:
            yield response
        code = grpc.StatusCode.OK
    except grpc.aio.AioRpcError as error:
        code = error.code()
        raise
    finally:
        call.cancel()
        _end(span, code)
