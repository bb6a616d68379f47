"""Calling a chat model: one span, one metric, one call record each, and errors that say what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage

from services.kit.errors import SignalboxError
from services.kit.models.call import StartedCall, model_call
from services.kit.models.chain import ASKED, Completes
from services.kit.models.completions import CUT_SHORT, TOOL_USE_FAILED, CompletionError
from services.kit.models.offline_rules import is_by_offline_rules
from services.kit.models.streamed import ESTIMATED, Hearer, UnfinishedCall, heard_by
from services.kit.models.usage import Tokens, tokens_in
from services.kit.telemetry.names import GEN_AI_CHAT
from services.runtime.calls.breaker import Breaker
from services.runtime.errors import DependencyAway, ModelFailed, ModelRefused
from services.runtime.routing.calls import MODEL, noting
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
    """Tells whether a model call that failed may succeed when made again at once."""
    return isinstance(error, DependencyAway) and not error.held_back


class RecordedCall:
    """A model call while it is made: told of the answer, it takes down what the answer cost."""

    def __init__(self, record: CallRecord, call: StartedCall) -> None:
        self._record = record
        self._call = call

    def answered(self, answer: AIMessage) -> None:
        """Takes the tokens from an answer, and whether rules gave it."""
        usage = answer.usage_metadata
        self._record["input_tokens"] = usage["input_tokens"] if usage else 0
        self._record["output_tokens"] = usage["output_tokens"] if usage else 0
        if answer.response_metadata.get(ESTIMATED):
            self._record["estimated"] = True
        self._record["offline_rules"] = is_by_offline_rules(answer.response_metadata)
        # Another model than the first may have answered.
        self._record["name"] = answer.response_metadata.get(ASKED) or self._record["name"]
        cached = (
            min((usage.get("input_token_details") or {}).get("cache_read") or 0, usage["input_tokens"]) if usage else 0
        )
        if cached:
            self._record["cached_tokens"] = cached
        self._call.took(Tokens(self._record["input_tokens"], self._record["output_tokens"], cached))

    def broken_off(self, unfinished: UnfinishedCall) -> None:
        """Takes the tokens of a call that is broken off, which nobody tells."""
        tokens = tokens_in(unfinished.usage)
        self._record["input_tokens"], self._record["output_tokens"], _ = tokens
        self._record["estimated"] = True
        self._call.took(tokens)


@contextmanager
def _recorded(purpose: str, model: str, breaker: Breaker, heard: Hearer | None) -> Iterator[RecordedCall]:
    with noting(MODEL, model) as record, breaker.passing(), heard_by(heard) as unfinished:
        try:
            with model_call(GEN_AI_CHAT, purpose, model) as call:
                made = RecordedCall(record, call)
                try:
                    yield made
                except asyncio.CancelledError:
                    made.broken_off(unfinished)
                    raise
        except CompletionError as error:
            record["input_tokens"], record["output_tokens"], _ = tokens_in(error.took)
            raise failure_of(error, model) from error


def failure_of(error: CompletionError, model: str) -> SignalboxError:
    """Returns what a failed completion means: the model is away, it says no, or its answer can't be used."""
    if error.retryable:
        away = DependencyAway(f"model {model}", error.kind)
        away.retry_after_s = error.retry_after_s
        return away
    if error.kind == TOOL_USE_FAILED:
        return ModelFailed(f"the endpoint of the model {model!r} could not read its call of a tool: {error.said}")
    if error.said:
        return ModelRefused(f"the model {model!r} refused the request ({error.kind}): {error.said}")
    return ModelFailed(f"the model {model!r} gave no answer that can be used ({error.kind})")


class ChatModel:
    """One model in one role."""

    def __init__(self, source: Completes, model: str) -> None:
        # OpenAI's types take half a second to import, and who looks at an agent, or tests its rules, asks no model.
        from services.runtime.calls.lenient_client import make_client

        self.name = model
        self.client = make_client(source, model)
        self._breaker = Breaker(f"model {model}")

    async def ask(
        self,
        purpose: str,
        messages: Sequence[BaseMessage],
        tools: Sequence[dict[str, Any]] = (),
        *,
        tool_choice: str | None = None,
        heard: Hearer | None = None,
    ) -> tuple[AIMessage, ModelCall]:
        """Sends messages and returns the answer with its record; `tool_choice` names the tool that it must be.

        `heard` hears it while it comes.

        Raises DependencyAway, ModelRefused, ModelFailed.
        """
        start = time.perf_counter()
        with _recorded(purpose, self.name, self._breaker, heard) as call:
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


def whole_text(answer: BaseMessage) -> str:
    """Returns what an answer says, or nothing when a limit or a filter cut it short: half an answer is none."""
    if answer.response_metadata.get("finish_reason") in CUT_SHORT:
        return ""
    return answer.text.strip()


def summary_of(answer: AIMessage) -> str:
    """Returns the tool calls that an answer asks for, or its text."""
    calls = [f"{call['name']}({call['args']})" for call in (*answer.tool_calls, *answer.invalid_tool_calls)]
    return ("; ".join(calls) or answer.text)[:OUTPUT_LENGTH]
