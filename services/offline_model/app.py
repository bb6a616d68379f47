"""The HTTP surface: chat completions, health."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from opentelemetry import context, propagate
from opentelemetry.trace import SpanKind
from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import GEN_AI_CHAT, GEN_AI_OPERATION, GEN_AI_REQUEST_MODEL, METRIC_PREFIX
from services.kit.telemetry.tracing import tracer
from services.offline_model.completion import complete
from services.offline_model.conversation import Skill, read_conversation
from services.offline_model.errors import ApiError, ModelNotFound, RequestTooLarge, RouteNotFound, ToolChoiceNotMet
from services.offline_model.wire import ChatRequest, read_request

log = get_logger()
COMPLETIONS = Counter(
    METRIC_PREFIX + "offline_model_completions_total", "Completions, by model and finish reason.", ["model", "reason"]
)
ERRORS = Counter(METRIC_PREFIX + "offline_model_errors_total", "Requests refused, by HTTP status.", ["status"])

from_zero(ERRORS, ["400", "404", "500"])


class Endpoints:
    """The handlers of the API's routes."""

    def __init__(self, skills: Mapping[str, Skill], max_request_bytes: int) -> None:
        self._skills = skills
        from_zero(COMPLETIONS, skills, ["stop", "tool_calls"])
        self._max_request_bytes = max_request_bytes

    async def chat_completions(self, request: Request) -> Response:
        """Answers a conversation with the skill that the model name picks."""
        chat = read_request(await self._document(request))
        attributes = {GEN_AI_OPERATION: GEN_AI_CHAT, GEN_AI_REQUEST_MODEL: chat.model}
        # The caller's trace and baggage are current, where the request carries them.
        token = context.attach(propagate.extract(request.headers))
        try:
            with tracer().start_as_current_span(
                f"{GEN_AI_CHAT} {chat.model}", kind=SpanKind.SERVER, attributes=attributes
            ):
                # In a thread: a skill that follows code computes for seconds, and others need not wait for it.
                completion = await asyncio.to_thread(self._complete, chat)
        finally:
            context.detach(token)
        return _json(completion)

    async def healthz(self, _request: Request) -> Response:
        """Says that the server serves."""
        return _json({"status": "ok"})

    def _complete(self, chat: ChatRequest) -> dict[str, Any]:
        conversation = read_conversation(chat)
        answer = self._skill(chat.model)(conversation)
        if conversation.must_call and not answer.calls:
            told = f"tool_choice demands a tool call, and {chat.model} has nothing to call a tool with: {answer.text}"
            raise ToolChoiceNotMet(told, param="tool_choice")
        completion = complete(chat, answer)
        reason = completion["choices"][0]["finish_reason"]
        COMPLETIONS.labels(chat.model, reason).inc()
        log.info("completed", model=chat.model, finish_reason=reason, **completion["usage"])
        return completion

    def _skill(self, model: str) -> Skill:
        skill = self._skills.get(model)
        if skill is None:
            raise ModelNotFound(f"The model {model!r} does not exist; there are: {', '.join(sorted(self._skills))}.")
        return skill

    async def _document(self, request: Request) -> Any:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._max_request_bytes:
                raise RequestTooLarge(f"The request body is larger than {self._max_request_bytes} bytes.")
        try:
            return orjson.loads(bytes(body))
        except orjson.JSONDecodeError as error:
            raise ApiError(f"The request body is not valid JSON: {error}.") from error


def make_app(skills: Mapping[str, Skill], *, max_request_bytes: int) -> Starlette:
    """Builds the application."""
    endpoints = Endpoints(skills, max_request_bytes)
    routes = [
        Route("/v1/chat/completions", endpoints.chat_completions, methods=["POST"]),
        Route("/healthz", endpoints.healthz, methods=["GET"]),
    ]
    handlers: Any = {ApiError: _refuse, HTTPException: _refuse_route, ClientDisconnect: _gone, Exception: _fail}
    return Starlette(routes=routes, exception_handlers=handlers)


async def _refuse(_request: Request, error: ApiError) -> Response:
    ERRORS.labels(str(error.status)).inc()
    log.info("refused", status=error.status, message=error.message)
    return _json(error.body(), status=error.status)


async def _refuse_route(request: Request, _error: HTTPException) -> Response:
    return await _refuse(request, RouteNotFound(f"There is no {request.method} {request.url.path}."))


async def _gone(_request: Request, _error: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _fail(_request: Request, error: Exception) -> Response:
    ERRORS.labels("500").inc()
    log.error("failed", exc_info=error)
    message = "The server had an error while processing the request; its log says which."
    return _json({"error": {"message": message, "type": "server_error", "param": None, "code": None}}, status=500)


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status_code=status, media_type="application/json")
