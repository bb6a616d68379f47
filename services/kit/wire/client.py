"""Channels to other services: balanced, bounded by the served call's deadline, and part of its trace."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from services.kit.settings import ServiceSettings, refuse
from services.kit.telemetry.metrics import RPC_CLIENT_CALLS, RPC_CLIENT_DURATION, exemplar, from_zero
from services.kit.telemetry.names import RPC_METHOD, RPC_STATUS, RPC_SYSTEM
from services.kit.telemetry.tracing import tracer
from services.kit.wire import deadline
from services.kit.wire.certificates import Certificates, Pems, RenewedChannel
from services.kit.wire.retries import SAFE_TO_RETRY, repeated
from services.kit.wire.silence import GRPC_OPTIONS
from services.kit.wire.streams import says_it_all
from services.kit.wire.tasks import detached

# Servers end a connection after seconds and the channel resolves the name anew: at most once a second, not gRPC's 30 s.
RESOLVE_AT_MOST_EVERY_MS = 1_000
SERVICE_CONFIG = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        # A replica that says NOT_SERVING gets no calls, though its connection is fine.
        "healthCheckConfig": {"serviceName": ""},
        "methodConfig": [repeated(SAFE_TO_RETRY)],
    }
)

# What a service answers for its caller's own reasons, or never: series of these begin when it happens.
_OF_NO_ABSENCE = frozenset(
    (
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    )
)


def connect(
    target: str, settings: ServiceSettings, outer: Sequence[grpc.aio.ClientInterceptor] = ()
) -> grpc.aio.Channel:
    """Opens a channel to a target: `dns:///guard:8443`, `ipv4:127.0.0.1:1,127.0.0.1:2`. The caller closes it.

    Calls go in turn to every replica that the name leads to, that can be reached and that says SERVING; how soon a new
    one is among them is up to the servers (docs/adr/0013-how-new-replicas-get-their-share.md).
    `outer` interceptors see a call once it is over.
    """
    options = [
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.enable_retries", 1),
        *GRPC_OPTIONS,
        ("grpc.dns_min_time_between_resolutions_ms", RESOLVE_AT_MOST_EVERY_MS),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # A replica that comes back is found within a second, not after two minutes of backoff.
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
    ]
    from_zero(RPC_CLIENT_CALLS, [target], [code.name for code in grpc.StatusCode if code not in _OF_NO_ABSENCE])
    from_zero(RPC_CLIENT_DURATION, [target])
    interceptors: Sequence[grpc.aio.ClientInterceptor] = [
        *outer,
        UnaryObserving(target),
        StreamObserving(target),
    ]
    certificates = Certificates.of(settings)
    if certificates is not None:
        options += _name_to_check(target)

        def opened(pems: Pems) -> grpc.aio.Channel:
            credentials = grpc.ssl_channel_credentials(pems.ca, pems.key, pems.cert)
            return grpc.aio.secure_channel(target, credentials, options=options, interceptors=interceptors)

        return RenewedChannel(certificates, opened)
    return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)


def _name_to_check(target: str) -> list[tuple[str, str]]:
    """Returns the option by which certificates of several addresses are checked: gRPC would take the list for a name.

    Addresses of different hosts are refused, as a channel checks one name only.
    """
    scheme, _, addresses = target.partition(":")
    if scheme not in ("ipv4", "ipv6") or "," not in addresses:
        return []
    hosts = {address.rpartition(":")[0] for address in addresses.split(",")}
    if len(hosts) > 1:
        refuse([f"{target}: under TLS several hosts can't be told apart by address; give a name, dns:///host:port"])
    return [("grpc.default_authority", hosts.pop())]


class _Call:
    """A call of another service: its span, and how long it took."""

    def __init__(self, target: str, details: grpc.aio.ClientCallDetails) -> None:
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        self._target = target
        self._start = time.perf_counter()
        self._span = tracer().start_span(
            method.lstrip("/"), kind=SpanKind.CLIENT, attributes={RPC_SYSTEM: "grpc", RPC_METHOD: method}
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(self._span))
        self.details = grpc.aio.ClientCallDetails(
            method=details.method,
            timeout=deadline.remaining(details.timeout),
            metadata=grpc.aio.Metadata(*(details.metadata or ()), *carrier.items()),
            credentials=details.credentials,
            wait_for_ready=details.wait_for_ready,
        )

    def ended(self, code: grpc.StatusCode) -> None:
        """Closes the books of the call."""
        RPC_CLIENT_CALLS.labels(self._target, code.name).inc(1, exemplar(self._span))
        RPC_CLIENT_DURATION.labels(self._target).observe(time.perf_counter() - self._start, exemplar(self._span))
        self._span.set_attribute(RPC_STATUS, code.value[0])
        if code is not grpc.StatusCode.OK:
            self._span.set_status(Status(StatusCode.ERROR, code.name))
        self._span.end()


class UnaryObserving(grpc.aio.UnaryUnaryClientInterceptor):
    """Gives each unary call a span, the trace context and what is left of the deadline, and counts it."""

    def __init__(self, target: str) -> None:
        self._target = target

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Makes the call; its span ends with it, also when it is cancelled."""
        observed = _Call(self._target, client_call_details)
        code = grpc.StatusCode.CANCELLED
        call = await continuation(observed.details, request)
        try:
            code = await call.code()
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            observed.ended(code)
        return call


class StreamObserving(grpc.aio.UnaryStreamClientInterceptor):
    """Gives each streamed answer a span, the trace context and what is left of the deadline, and counts it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._ends: set[asyncio.Task[None]] = set()

    async def intercept_unary_stream(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> AsyncIterator[Any]:
        """Makes the call; the span ends when the stream does, also when its reader goes away."""
        observed = _Call(self._target, client_call_details)
        heard = _Heard(await continuation(observed.details, request))
        # Not left to the iterator: one that is dropped half read is closed when the collector comes by.
        end = detached(heard.ended(observed))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return heard.responses()


class _Heard:
    """A stream as far as it has been read."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._all = False

    async def responses(self) -> AsyncIterator[Any]:
        """Yields what comes; the call is over with it."""
        try:
            async for response in self._call:
                self._all = says_it_all(response)
                yield response
        finally:
            self._call.cancel()

    async def ended(self, observed: _Call) -> None:
        """Waits for the end of the call and closes its books; whoever leaves after the last word has heard it out."""
        code = grpc.StatusCode.CANCELLED
        try:
            code = await self._call.code()
        finally:
            observed.ended(grpc.StatusCode.OK if code is grpc.StatusCode.CANCELLED and self._all else code)
