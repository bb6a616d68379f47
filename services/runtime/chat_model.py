"""Calling a chat model: one span, one metric, one call record each, and errors that say what happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import openai
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from opentelemetry.trace import SpanKind, Status, StatusCode
from pydantic import SecretStr

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
from services.runtime.errors import ModelFailed
from services.runtime.lenient_client import LenientChatOpenAI
from services.runtime.routing.calls import noting

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


@dataclass(frozen=True)
class ModelEndpoint:
    """Where models are, and how patient to be with them."""

    base_url: str
    api_key: SecretStr
    timeout_s: float
    retries: int


class ChatModel:
    """One model in one role."""

    def __init__(self, endpoint: ModelEndpoint, model: str) -> None:
        self._model = model
        # A self-hosted endpoint has no Responses API, and the client's default timeout is none.
        self._client = LenientChatOpenAI(
            model=model,
            base_url=endpoint.base_url,
            api_key=SecretStr(endpoint.api_key.get_secret_value() or "none"),
            timeout=endpoint.timeout_s,
            max_retries=endpoint.retries,
            temperature=0,
            use_responses_api=False,
            stream_usage=True,
        )
        self._bound: dict[str, Runnable[Any, AIMessage]] = {}

    async def ask(
        self, purpose: str, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()
    ) -> tuple[AIMessage, ModelCall]:
        """Sends messages and returns the answer with its record. Raises ModelFailed."""
        attributes = {GEN_AI_OPERATION: GEN_AI_CHAT, GEN_AI_PROVIDER: "openai", GEN_AI_REQUEST_MODEL: self._model}
        start = time.perf_counter()
        outcome = "error"
        with (
            tracer().start_as_current_span(
                f"{GEN_AI_CHAT} {self._model}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
            ) as span,
            noting("model", self._model) as call,
        ):
            try:
                answer = await self._runnable(tools).ainvoke(list(messages), extra_headers=trace_headers())
                outcome = "ok"
            except (openai.OpenAIError, ValueError, TypeError, KeyError) as error:
                # The client raises plain errors when an endpoint's answer is not of the API's form.
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise ModelFailed(
                    f"the model {self._model!r} did not answer ({type(error).__name__}); try again later"
                ) from error
            finally:
                MODEL_DURATION.labels(purpose, outcome).observe(time.perf_counter() - start, exemplar())
            usage = answer.usage_metadata
            call["input_tokens"] = usage["input_tokens"] if usage else 0
            call["output_tokens"] = usage["output_tokens"] if usage else 0
            span.set_attribute(GEN_AI_INPUT_TOKENS, call["input_tokens"])
            span.set_attribute(GEN_AI_OUTPUT_TOKENS, call["output_tokens"])
        MODEL_TOKENS.labels(purpose, "input").inc(call["input_tokens"])
        MODEL_TOKENS.labels(purpose, "output").inc(call["output_tokens"])
        return answer, ModelCall(
            purpose=purpose,
            model=self._model,
            input_summary=messages[-1].text[:INPUT_SUMMARY_LENGTH],
            output=summary_of(answer),
            input_tokens=call["input_tokens"],
            output_tokens=call["output_tokens"],
            elapsed_ms=round((time.perf_counter() - start) * 1000, 3),
        )

    def _runnable(self, tools: Sequence[dict[str, Any]]) -> Runnable[Any, AIMessage]:
        key = repr(tools)
        if key not in self._bound:
            self._bound = {key: self._client.bind_tools(tools) if tools else self._client}
        return self._bound[key]


def summary_of(answer: AIMessage) -> str:
    """Returns the tool calls that an answer asks for, or its text."""
    asked = [f"{call['name']}({call['args']})" for call in (*answer.tool_calls, *answer.invalid_tool_calls)]
    return ("; ".join(asked) or answer.text)[:OUTPUT_LENGTH]
