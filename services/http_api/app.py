"""The HTTP API as an application: its routes, who may call it from a browser, and what becomes of errors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ExceptionHandler

from services.http_api.errors import ApiError, NotFound, WrongMethod
from services.http_api.event_stream import Streams
from services.http_api.framing import OneEnd, problem
from services.http_api.gateway import API_KEY, Gateway
from services.http_api.json_bodies import BodyReader, Json
from services.http_api.metrics import NO_OPERATION, REQUESTS
from services.http_api.operations import AssistantRoutes, Handler, Operation, openapi, operations
from services.http_api.run_request import IDEMPOTENCY_KEY
from services.http_api.runs import LAST_EVENT_ID, RunRoutes
from services.http_api.settings import HttpApiSettings
from services.http_api.store import StoreRoutes
from services.http_api.thread_commands import ThreadCommands
from services.http_api.thread_stream import ThreadStreams
from services.http_api.threads import ThreadRoutes
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import AUTHORIZATION
from services.kit.telemetry.tracing import trace_ids, tracer

log = get_logger()
LEFT = 499
# What the SDKs send and read beside what browsers let pass anyway.
CORS_HEADERS = (
    AUTHORIZATION,
    API_KEY,
    "content-type",
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    "x-auth-scheme",
    "cache-control",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
)
CORS_EXPOSED = (
    "content-location",
    "location",
    "x-pagination-next",
    "retry-after",
    "mcp-session-id",
    "www-authenticate",
)
CORS_MAX_AGE_S = 600


def make_app(gateway: Gateway, settings: HttpApiSettings, streams: Streams) -> Starlette:
    """Returns the application. Its streams end with `streams.closing`."""
    bodies = BodyReader(max_bytes=settings.max_request_bytes, timeout_s=settings.read_timeout_s)
    runs = RunRoutes(gateway, bodies, streams, recovery_s=settings.recovery_s)
    thread_streams = ThreadStreams(
        gateway, bodies, streams, recovery_s=settings.recovery_s, most_of_caller=settings.max_thread_streams
    )
    served = operations(
        gateway,
        AssistantRoutes(gateway, bodies),
        ThreadRoutes(gateway, bodies),
        StoreRoutes(gateway, bodies),
        runs,
        thread_streams,
        ThreadCommands(gateway, bodies, runs, thread_streams.bells),
    )
    from_zero(REQUESTS, [each.name for each in served], ["200"])
    document = openapi(served)

    async def described(_request: Request) -> Response:
        return Json(document)

    served.append(Operation("GET", "/openapi.json", "openapi", "This document", described, public=True))
    handlers: Mapping[type[Exception], ExceptionHandler] = {
        HTTPException: _no_operation,
        Exception: _failed,
    }
    made = Starlette(routes=_routes(served), exception_handlers=handlers, middleware=_middleware(settings))
    # Where a redirect leads is the `Host` header's to say, and clients lose their token on the way.
    made.router.redirect_slashes = False
    return made


def _routes(served: Sequence[Operation]) -> list[Route]:
    return [Route(each.path, _observed(each), methods=[each.method], name=each.name) for each in served]


def _middleware(settings: HttpApiSettings) -> list[Middleware]:
    first = [Middleware(OneEnd)]
    if not settings.allowed_origins:
        return first
    return [
        *first,
        Middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=list(CORS_HEADERS),
            expose_headers=list(CORS_EXPOSED),
            max_age=CORS_MAX_AGE_S,
        ),
    ]


def _observed(operation: Operation) -> Handler:
    """Returns the handler with its span and duration, and with its errors told."""

    async def handle(request: Request) -> Response:
        began = time.perf_counter()
        # A trace of our own: whether to record is not the caller's to say.
        of_caller = trace.get_current_span(propagate.extract(request.headers)).get_span_context()
        links = [Link(of_caller)] if of_caller.is_valid else []
        with tracer().start_as_current_span(
            f"{operation.method} {operation.path}", kind=SpanKind.SERVER, links=links
        ) as span:
            response = await _answered(operation, request, span)
            if response.status_code >= 500:
                span.set_status(Status(StatusCode.ERROR, str(response.status_code)))
        REQUESTS.labels(operation.name, str(response.status_code)).observe(time.perf_counter() - began)
        return response

    return handle


async def _answered(operation: Operation, request: Request, span: trace.Span) -> Response:
    try:
        operation.check_query(request.query_params)
        return await operation.handler(request)
    except ApiError as error:
        log.info("request refused", operation=operation.name, status=error.status, reason=error.told_reason)
        return problem(error)
    except ClientDisconnect:
        return Response(status_code=LEFT)
    except Exception:
        trace_id = trace_ids(span)[0]
        log.exception("request failed", operation=operation.name)
        return problem(ApiError(f"the server failed at this request; look up trace {trace_id or 'in its log'}"))


async def _no_operation(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else NotFound.status
    told: ApiError = NotFound(f"nothing is served at {request.url.path[:200]!r}; see /openapi.json")
    if status == WrongMethod.status:
        told = WrongMethod(f"{request.method} is no method of {request.url.path[:200]!r}; see /openapi.json")
    REQUESTS.labels(NO_OPERATION, str(told.status)).observe(0)
    return problem(told)


async def _failed(_request: Request, _error: Exception) -> Response:
    return problem(ApiError("the server failed at this request"))
