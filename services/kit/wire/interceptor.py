"""The one server interceptor: context, span, metrics, deadline and error mapping of every call served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import grpc
from google.protobuf.descriptor_pool import Default
from grpc_status import rpc_status
from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from services.kit.errors import SignalboxError, internal_status, to_status
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import RPC_ACTIVE, RPC_DURATION, RPC_ERRORS, RPC_FAULTS, exemplar, from_zero
from services.kit.telemetry.names import RPC_METHOD, RPC_STATUS, RPC_SYSTEM
from services.kit.telemetry.tracing import trace_ids, tracer
from services.kit.wire import deadline
from services.kit.wire.streams import says_it_all

log = get_logger()
# Probes and reflection are no part of any trace.
_UNOBSERVED = ("/grpc.health.", "/grpc.reflection.")


def count_from_zero(service: str) -> None:
    """Makes the series of a service's methods, so that the first call and the first failure are seen as such."""
    methods = [f"/{service}/{method.name}" for method in Default().FindServiceByName(service).methods]
    from_zero(RPC_ERRORS, sorted(_reasons(SignalboxError)))
    from_zero(RPC_FAULTS, methods)


def _reasons(error: type[SignalboxError]) -> set[str]:
    return {error.reason}.union(*map(_reasons, error.__subclasses__()))


class Observed:
    """A call being served: its span, and how it ended."""

    def __init__(self, method: str, span: trace.Span) -> None:
        self.method = method
        self.span = span
        self.code = grpc.StatusCode.OK
        self.said_it_all = False
        self._start = time.perf_counter()
        RPC_ACTIVE.labels(method).inc()

    def left(self) -> None:
        """Notes that the caller has gone: after the last word that is the end of the call as any other."""
        if self.said_it_all:
            return
        self.code = grpc.StatusCode.CANCELLED
        self.span.set_status(Status(StatusCode.ERROR, self.code.name))

    def ended(self) -> None:
        """Closes the books of the call."""
        self.span.set_attribute(RPC_STATUS, self.code.value[0])
        elapsed_s = time.perf_counter() - self._start
        RPC_ACTIVE.labels(self.method).dec()
        RPC_DURATION.labels(self.method, self.code.name).observe(elapsed_s, exemplar())
        log.debug("call served", method=self.method, code=self.code.name, elapsed_ms=round(elapsed_s * 1000, 3))
        self.span.end()

    async def fail(self, servicer_context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
        """Ends the call with the status of an error."""
        if isinstance(error, SignalboxError):
            self.code, reason, status = error.code, error.reason, to_status(error)
            log.info("call refused", method=self.method, reason=reason, code=self.code.name, error=error.message)
        else:
            self.code, reason = grpc.StatusCode.INTERNAL, "INTERNAL"
            status = internal_status(trace_ids(self.span)[0])
            RPC_FAULTS.labels(self.method).inc()
            log.error("call failed", method=self.method, exc_info=error)
        RPC_ERRORS.labels(reason).inc()
        self.span.set_status(Status(StatusCode.ERROR, reason))
        await servicer_context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("abort_with_status returned")


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Serves every call in its caller's trace and within its deadline, and maps what it raises to a status."""

    def __init__(self) -> None:
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wraps the handler of a method, once per method."""
        method = handler_call_details.method
        if method in self._wrapped:
            return self._wrapped[method]
        handler = await continuation(handler_call_details)
        if handler is None or method.startswith(_UNOBSERVED):
            return handler
        self._wrapped[method] = _wrap(handler, method)
        return self._wrapped[method]


def _wrap(handler: grpc.RpcMethodHandler[Any, Any], method: str) -> grpc.RpcMethodHandler[Any, Any]:
    codec = {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }
    if handler.unary_stream:
        return grpc.unary_stream_rpc_method_handler(
            _serve_stream(cast(StreamServe, handler.unary_stream), method), **codec
        )
    if handler.unary_unary:
        return grpc.unary_unary_rpc_method_handler(_serve_unary(handler.unary_unary, method), **codec)
    return handler


UnaryServe = Callable[[Any, Any], Awaitable[Any]]
StreamServe = Callable[[Any, Any], AsyncIterator[Any]]


def _serve_unary(serve: UnaryServe, method: str) -> UnaryServe:
    async def served(request: Any, servicer_context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        with _observe(method, servicer_context) as call:
            try:
                return await serve(request, servicer_context)
            except (grpc.aio.AbortError, asyncio.CancelledError):
                raise
            except grpc.aio.InternalError:  # gRPC's own: the caller's time was over, and nobody is left to be told
                call.left()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary where errors become statuses
                await call.fail(servicer_context, error)

    return served


def _serve_stream(serve: StreamServe, method: str) -> StreamServe:
    async def served(request: Any, servicer_context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        with _observe(method, servicer_context) as call:
            try:
                async for response in serve(request, servicer_context):
                    call.said_it_all = says_it_all(response)
                    yield response
            except (grpc.aio.AbortError, asyncio.CancelledError):
                raise
            except grpc.aio.InternalError:  # gRPC's own: the caller's time was over, and nobody is left to be told
                call.left()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary where errors become statuses
                await call.fail(servicer_context, error)

    return served


@contextmanager
def _observe(method: str, servicer_context: grpc.aio.ServicerContext[Any, Any]) -> Iterator[Observed]:
    carrier = {key: value for key, value in servicer_context.invocation_metadata() or () if isinstance(value, str)}
    parent = propagate.extract(carrier)
    span = tracer().start_span(method.lstrip("/"), parent, SpanKind.SERVER, {RPC_SYSTEM: "grpc", RPC_METHOD: method})
    token = context.attach(trace.set_span_in_context(span, parent))
    deadline.set_remaining(servicer_context.time_remaining())
    call = Observed(method, span)
    try:
        yield call
    except grpc.aio.AbortError:
        if call.code is grpc.StatusCode.OK:
            call.code = _code_of(servicer_context)
        raise
    except (asyncio.CancelledError, GeneratorExit):
        # A stream whose caller goes while a message is on its way is closed, and one that waits is cancelled.
        call.left()
        raise
    finally:
        call.ended()
        _detach(token)


def _code_of(servicer_context: grpc.aio.ServicerContext[Any, Any]) -> grpc.StatusCode:
    code = servicer_context.code()
    return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN


def _detach(token: Any) -> None:
    # A stream that its client dropped is closed from another context, where the token means nothing.
    try:
        context._RUNTIME_CONTEXT.detach(token)
    except ValueError:
        log.debug("context left with its stream")
