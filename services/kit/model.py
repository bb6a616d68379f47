"""One-shot questions to an OpenAI-compatible model, for the services that ask for a verdict and not for tool calls."""

from __future__ import annotations

import time
from dataclasses import dataclass

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode

from services.kit.completions import CompletionError, Completions, Endpoint
from services.kit.errors import SignalboxError
from services.kit.metrics import MODEL_DURATION, MODEL_TOKENS, exemplar
from services.kit.names import (
    GEN_AI_CHAT,
    GEN_AI_INPUT_TOKENS,
    GEN_AI_OPERATION,
    GEN_AI_OUTPUT_TOKENS,
    GEN_AI_PROVIDER,
    GEN_AI_REQUEST_MODEL,
)
from services.kit.telemetry import tracer


class ModelUnavailable(SignalboxError):
    """The model did not answer, or not with anything that can be read."""

    reason = "MODEL_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


@dataclass(frozen=True)
class Completion:
    """What a model answered, and what that took."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    elapsed_ms: float


class ModelClient:
    """Asks one model. Whoever makes it closes it."""

    def __init__(self, *, base_url: str, api_key: str, model: str, timeout_s: float, retries: int = 1) -> None:
        self._model = model
        self._completions = Completions(Endpoint(base_url, api_key, timeout_s, retries))

    async def complete(self, purpose: str, *, system: str, user: str, max_tokens: int = 256) -> Completion:
        """Sends a system and a user message and returns the answer. Raises ModelUnavailable."""
        attributes = {GEN_AI_OPERATION: GEN_AI_CHAT, GEN_AI_PROVIDER: "openai", GEN_AI_REQUEST_MODEL: self._model}
        start = time.perf_counter()
        outcome = "error"
        with tracer().start_as_current_span(
            f"{GEN_AI_CHAT} {self._model}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            try:
                completion = await self._ask(system, user, max_tokens, start)
                outcome = "ok"
            except CompletionError as error:
                span.set_status(Status(StatusCode.ERROR, error.kind))
                raise ModelUnavailable(f"the model {self._model!r} did not answer ({error.kind})") from error
            finally:
                MODEL_DURATION.labels(purpose, outcome).observe(time.perf_counter() - start, exemplar())
            span.set_attribute(GEN_AI_INPUT_TOKENS, completion.input_tokens)
            span.set_attribute(GEN_AI_OUTPUT_TOKENS, completion.output_tokens)
        MODEL_TOKENS.labels(purpose, "input").inc(completion.input_tokens)
        MODEL_TOKENS.labels(purpose, "output").inc(completion.output_tokens)
        return completion

    async def _ask(self, system: str, user: str, max_tokens: int, start: float) -> Completion:
        answer = await self._completions.create(
            {
                "model": self._model,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
                "max_tokens": max_tokens,
                "temperature": 0,
            }
        )
        usage = answer.get("usage") or {}
        return Completion(
            text=(answer["choices"][0].get("message") or {}).get("content") or "",
            model=answer.get("model") or self._model,
            input_tokens=usage.get("prompt_tokens") or 0,
            output_tokens=usage.get("completion_tokens") or 0,
            elapsed_ms=(time.perf_counter() - start) * 1000,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._completions.close()
