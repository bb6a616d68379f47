"""One-shot questions to an OpenAI-compatible model, for the services that ask for a verdict and not for tool calls."""

from __future__ import annotations

import time
from dataclasses import dataclass

import grpc
import openai
from opentelemetry.trace import SpanKind, Status, StatusCode

from services.kit import deadline
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
from services.kit.telemetry import trace_headers, tracer


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
    """Asks one model. The caller closes it."""

    def __init__(self, *, base_url: str, api_key: str, model: str, timeout_s: float, retries: int = 1) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key or "none", max_retries=retries)

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
            except openai.OpenAIError as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise ModelUnavailable(f"the model {self._model!r} did not answer: {type(error).__name__}") from error
            finally:
                MODEL_DURATION.labels(purpose, outcome).observe(time.perf_counter() - start, exemplar())
            span.set_attribute(GEN_AI_INPUT_TOKENS, completion.input_tokens)
            span.set_attribute(GEN_AI_OUTPUT_TOKENS, completion.output_tokens)
        MODEL_TOKENS.labels(purpose, "input").inc(completion.input_tokens)
        MODEL_TOKENS.labels(purpose, "output").inc(completion.output_tokens)
        return completion

    async def _ask(self, system: str, user: str, max_tokens: int, start: float) -> Completion:
        answer = await self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            max_tokens=max_tokens,
            temperature=0,
            timeout=deadline.remaining(self._timeout_s),
            extra_headers=trace_headers(),
        )
        if not answer.choices:
            raise ModelUnavailable(f"the model {self._model!r} answered with no choice")
        usage = answer.usage
        return Completion(
            text=answer.choices[0].message.content or "",
            model=answer.model,
            input_tokens=usage.prompt_tokens if usage else 0,
            output_tokens=usage.completion_tokens if usage else 0,
            elapsed_ms=(time.perf_counter() - start) * 1000,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()
