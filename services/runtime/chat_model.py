"""Calling a chat model: one span, one metric, one call record each, and errors that say what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from services.kit.completions import CompletionError, Completions
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
from services.runtime.errors import ModelFailed
from services.runtime.lenient_client import make_client
from services.runtime.routing.calls import noting
from services.runtime.routing.recorder import CallRecord

INPUT_SUMMARY_LENGTH = 200
OUTPUT_LENGTH = 2000


class ModelCall(TypedDict):
    """A model call as `debug` shows it."""

    purpose: str
    model: str
    input_summary: str
    output: str
    input_tokens: int
    output_tokens: int
    elapsed_ms: float


def is_transient(error: Exception) -> bool:
    """Tells whether a failed model call may succeed when made again: 429, 5xx, no connection, no answer in time."""
    cause = error.__cause__ if isinstance(error, ModelFailed) else error
    return isinstance(cause, CompletionError) and cause.retryable


class RecordedCall:
    """A model call while it is made: told of the answer, it takes down what the answer cost."""

    def __init__(self, call: CallRecord, span: Span) -> None:
        self._call = call
        self._span = span

    def answered(self, answer: AIMessage) -> None:
        """Takes the tokens from an answer."""
        usage = answer.usage_metadata
        self._call["input_tokens"] = usage["input_tokens"] if usage else 0
        self._call["output_tokens"] = usage["output_tokens"] if usage else 0
        self._span.set_attribute(GEN_AI_INPUT_TOKENS, self._call["input_tokens"])
        self._span.set_attribute(GEN_AI_OUTPUT_TOKENS, self._call["output_tokens"])


@contextmanager
def recorded_call(purpose: str, model: str) -> Iterator[RecordedCall]:
    """Records the model call made inside the context, whoever makes it. Raises ModelFailed for its errors."""
    attributes = {GEN_AI_OPERATION: GEN_AI_CHAT, GEN_AI_PROVIDER: "openai", GEN_AI_REQUEST_MODEL: model}
    start = time.perf_counter()
    outcome = "error"
    with (
        tracer().start_as_current_span(
            f"{GEN_AI_CHAT} {model}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span,
        noting("model", model) as call,
    ):
        try:
            yield RecordedCall(call, span)
            outcome = "ok"
        except CompletionError as error:
            span.set_status(Status(StatusCode.ERROR, error.kind))
            raise ModelFailed(f"the model {model!r} did not answer ({error.kind}); try again later") from error
        finally:
            MODEL_DURATION.labels(purpose, outcome).observe(time.perf_counter() - start, exemplar())
    MODEL_TOKENS.labels(purpose, "input").inc(call["input_tokens"])
    MODEL_TOKENS.labels(purpose, "output").inc(call["output_tokens"])


class ChatModel:
    """One model in one role."""

    def __init__(self, completions: Completions, model: str) -> None:
        self.name = model
        self.client = make_client(completions, model)

    async def ask(
        self,
        purpose: str,
        messages: Sequence[BaseMessage],
        tools: Sequence[dict[str, Any]] = (),
        *,
        tool_choice: str | None = None,
    ) -> tuple[AIMessage, ModelCall]:
        """Sends messages and returns the answer with its record; `tool_choice` names the tool that it must be.

        Raises ModelFailed.
        """
        start = time.perf_counter()
        with recorded_call(purpose, self.name) as call:
            answer = await self.client.answer(messages, tools, tool_choice)
            call.answered(answer)
        usage = answer.usage_metadata
        return answer, ModelCall(
            purpose=purpose,
            model=self.name,
            input_summary=messages[-1].text[:INPUT_SUMMARY_LENGTH],
            output=summary_of(answer),
            input_tokens=usage["input_tokens"] if usage else 0,
            output_tokens=usage["output_tokens"] if usage else 0,
            elapsed_ms=round((time.perf_counter() - start) * 1000, 3),
        )


def summary_of(answer: AIMessage) -> str:
    """Returns the tool calls that an answer asks for, or its text."""
    asked = [f"{call['name']}({call['args']})" for call in (*answer.tool_calls, *answer.invalid_tool_calls)]
    return ("; ".join(asked) or answer.text)[:OUTPUT_LENGTH]
