"""Models of providers with an API of their own, over LangChain's class for them, in the form of chat completions.

The class comes with the provider's extra (`pip install signalbox[anthropic]`); without one nothing here is imported.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from services.kit.models.completions import TOOL_USE_FAILED, CompletionError, repeated, with_nothing_told
from services.kit.models.parameters import OneModel
from services.kit.models.provider_words import provider_words
from services.kit.models.streamed import Hearer, estimate_usage, hearer, unfinished_call

# 424 is what Bedrock says where the model itself failed.
_PASSING: Final = frozenset({408, 409, 424, 429, *range(500, 600)})
# By the name of an error that came in a stream, or else of the exception, for what has no status of its own.
_PASSING_NAMES: Final = re.compile(
    r"timeout|connection|throttl|unavailable|exhausted|overloaded|ratelimit|modelstream|internalserver|apierror|notready"
    # What can't be read is no answer of the provider's: another's page, or half of one.
    r"|parse|checksum|protocol|incomplete|(?:json|unicode)decode|payload",
    re.IGNORECASE,
)
# How a class fails over an answer that is none; and in the second's words, over what it lacks to ask.
_UNREAD: Final = (ValueError, TypeError, AttributeError, LookupError)
_UNASKED: Final = re.compile(r"authenti|credential|api[_ ]?key", re.IGNORECASE)
# `retries` repeats; what a class repeats by itself multiplies that, and takes the time of a fallback.
_ONCE: Final = {
    "anthropic": {"max_retries": 0}, "openai": {"max_retries": 0}, "azure_openai": {"max_retries": 0},
    "google_genai": {"max_retries": 1}, "bedrock_converse": {"max_retries": 0},
}  # fmt: skip
# Those whose answers say why they ended; Bedrock's class looks for that itself.
_SAY_WHY: Final = frozenset({"anthropic", "google_genai"})
_FINISHED: Final = {
    "STOP": "stop",
    **dict.fromkeys(
        ("max_tokens", "MAX_TOKENS", "model_context_window_exceeded", "pause_turn", "malformed_model_output"), "length"
    ),
    # Anthropic's, Bedrock's, Gemini's
    **dict.fromkeys(
        (
            "refusal", "guardrail_intervened", "content_filtered", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII",
            "RECITATION", "LANGUAGE", "OTHER",
        ),
        "content_filter",
    ),
}  # fmt: skip


_PROMPT_BLOCKED: Final = "prompt_blocked"
# Where a model wrote a call that can't be read, or of a tool that there is not: Gemini's words, and Bedrock's.
_UNREADABLE_CALLS: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "malformed_tool_use"})


class ProviderModel:
    """Asks one model of a provider; the timeout is for all attempts together."""

    def __init__(self, parameters: OneModel, timeout_s: float, retries: int) -> None:
        self._parameters = parameters
        self._timeout_s = timeout_s
        self._retries = retries
        self._model: Any = None

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer in the form of chat completions. Raises CompletionError."""

        async def ask(messages: list[Any]) -> dict[str, Any]:
            try:
                model = await self._with_tools(payload)
                return await self._answered(model, messages if payload.get("tools") else without_calls(messages))
            except CompletionError:
                raise
            except Exception as error:
                raise _failure(error, is_asked=False) from error

        return await with_nothing_told(ask, list(payload["messages"]), self._retries, self._timeout_s)

    async def _with_tools(self, payload: Mapping[str, Any]) -> Any:
        """Returns the class, made at the first request, with the tools that are offered."""
        if self._model is None:
            self._model = await asyncio.to_thread(self._made)
        if not (tools := payload.get("tools")):
            return self._model
        choice = payload.get("tool_choice")
        named = choice["function"]["name"] if isinstance(choice, Mapping) else choice
        return self._model.bind_tools(list(tools), **({"tool_choice": named} if named else {}))

    async def _answered(self, model: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
        from langchain_core.messages import convert_to_messages

        asked, heard = convert_to_messages(self._marked(messages)), hearer()
        made = await repeated(lambda: self._asked(model, asked, heard), self._retries)
        if not made["usage"]["prompt_tokens"]:
            estimate_usage({"messages": messages}, made)
        return made

    async def _asked(self, model: Any, messages: Sequence[Any], heard: Hearer | None) -> dict[str, Any]:
        """Returns an answer, asked for once. Raises CompletionError."""
        answer = await _answer(model, messages, heard)
        _check_prompt(answer.response_metadata.get("prompt_feedback"))
        is_told = _reason_of(answer) or (heard is None and answer.usage_metadata)
        if self._parameters.provider in _SAY_WHY and not is_told:
            raise CompletionError("connection", "the provider's answer ended before it was whole", retryable=True)
        return _in_form(answer, self._parameters.model)

    def _marked(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns messages with the mark of what is to be cached as the provider has it."""
        if self._parameters.provider != "bedrock_converse":
            return messages
        return [
            {**message, "content": [each for part in content for each in _with_cache_point(part)]}
            if isinstance(content := message.get("content"), list)
            else message
            for message in messages
        ]

    def _made(self) -> Any:
        from langchain.chat_models import init_chat_model

        own = self._parameters
        options = {**_ONCE.get(own.provider, {}), **own.options}
        if own.temperature is not None:
            options["temperature"] = own.temperature
        if own.max_tokens is not None:
            options["max_tokens"] = own.max_tokens
        if own.base_url:
            options["base_url"] = own.base_url
        if own.key:
            options["api_key"] = own.key
        if own.provider == "bedrock_converse":
            # Its class asks in a thread, which goes on when nobody waits for it any more.
            options.setdefault("timeout", math.ceil(self._timeout_s))
        return init_chat_model(own.model, model_provider=own.provider, **options)

    async def close(self) -> None:
        """Lets go of the class, which closes what it opened."""
        self._model = None


async def _answer(model: Any, messages: Sequence[Any], heard: Hearer | None) -> Any:
    """Returns the message of a model, asked once. Raises CompletionError."""
    try:
        return await (model.ainvoke(messages) if heard is None else _streamed(model, messages, heard))
    except TimeoutError as error:
        raise CompletionError("timeout", "the provider's client waited too long", retryable=True) from error
    except CompletionError:
        raise
    except Exception as error:
        raise _failure(error) from error


async def _streamed(model: Any, messages: Sequence[Any], heard: Hearer) -> Any:
    """Returns the message of a model, told while it comes."""
    heard.begin()
    answer = None
    try:
        async for chunk in model.astream(messages):
            answer = chunk if answer is None else answer + chunk
            if chunk.text:
                heard.say(chunk.text)
    except asyncio.CancelledError:
        if answer is not None:
            told = (answer.usage_metadata or {}).get("input_tokens")
            message = {"role": "assistant", "content": answer.text}
            unfinished_call().came = {"choices": [{"message": message}], "usage": {"prompt_tokens": told}}
        raise
    if answer is None:
        raise CompletionError("no_choice", "the model answered with nothing", retryable=True)
    return answer


def without_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns messages whose calls of tools and results are told in words, for requests that offer no tools.

    Anthropic and Bedrock refuse a history with calls where no tools are offered.
    """
    told: list[dict[str, Any]] = []
    for message in messages:
        if message.get("tool_calls"):
            calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message["tool_calls"]]
            told.append({"role": "assistant", "content": "\n".join(filter(None, [message.get("content"), *calls]))})
        elif message["role"] == "tool":
            told.append({"role": "user", "content": f"Result: {message['content']}"})
        else:
            told.append(message)
    return told


def _with_cache_point(part: dict[str, Any]) -> list[dict[str, Any]]:
    bare = {name: each for name, each in part.items() if name != "cache_control"}
    return [bare] if bare == part else [bare, {"cachePoint": {"type": "default"}}]


def _status_of(error: BaseException | None) -> int | None:
    """Returns the HTTP status that an error is of, or the one that it was raised for; none of an answer's."""
    if error is None:
        return None
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        response = response.get("ResponseMetadata") or {}
        return response.get("HTTPStatusCode") or _status_of(error.__cause__)
    named = (getattr(error, "status_code", None), getattr(error, "code", None), getattr(response, "status_code", None))
    found = next((each for each in named if isinstance(each, int)), None)
    return found if found and found >= HTTPStatus.BAD_REQUEST else _status_of(error.__cause__)


def _failure(error: Exception, *, is_asked: bool = True) -> CompletionError:
    status = _status_of(error)
    said = provider_words(str(error).encode())
    name = type(error).__name__
    if status is not None:
        told = f"the provider answered {status}: {said}"
        return CompletionError(f"http_{status}", told, retryable=status in _PASSING, said=said)
    named = (_named_in_stream(error) or name).replace("_", "")
    is_unread = is_asked and isinstance(error, _UNREAD) and not _UNASKED.search(said)
    passes = is_unread or isinstance(error, OSError) or _PASSING_NAMES.search(named) is not None
    return CompletionError(name, f"the provider failed: {said}", retryable=passes, said=said)


def _named_in_stream(error: Exception) -> str:
    """Returns the name of an error that came in a stream, after it had begun with status 200."""
    for told in (getattr(error, "body", None), getattr(error, "response", None)):
        inner = (told.get("error") or told.get("Error")) if isinstance(told, Mapping) else None
        if isinstance(inner, Mapping):
            return str(inner.get("type") or inner.get("Code") or "")
    return ""


def _check_prompt(feedback: Any) -> None:
    """Raises CompletionError with Gemini's words for a prompt that it blocked, which its class takes for no text."""
    reason = feedback.get("block_reason") if isinstance(feedback, Mapping) else None
    if reason:
        words = (getattr(reason, "name", str(reason)), feedback.get("block_reason_message"))
        said = f"the prompt was blocked: {' '.join(filter(None, words))}"
        raise CompletionError(_PROMPT_BLOCKED, f"the provider refused: {said}", retryable=False, said=said)


def _reason_of(answer: Any) -> str | None:
    about: Mapping[str, Any] = answer.response_metadata
    return about.get("finish_reason") or about.get("stop_reason") or about.get("stopReason")


def _in_form(answer: Any, model: str) -> dict[str, Any]:
    from langchain_core.messages import convert_to_openai_messages

    about, usage = answer.response_metadata, answer.usage_metadata or {}
    message = dict(convert_to_openai_messages(answer))
    # LangChain's classes make an empty text of an answer without a candidate.
    message["content"] = message.get("content") or None
    # Those whose arguments its class could not read, for the model to be told so.
    unread = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["args"]}}
        for call in answer.invalid_tool_calls
    ]
    if unread:
        message["tool_calls"] = [*message.get("tool_calls", ()), *unread]
    reason = _reason_of(answer) or "stop"
    if reason in _UNREADABLE_CALLS:
        said = about.get("finish_message") or reason
        raise CompletionError(
            TOOL_USE_FAILED, f"the provider could not read a call: {said}", retryable=False, said=said
        )
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    return {
        "model": about.get("model_name") or about.get("model") or model,
        "choices": [{"message": message, "finish_reason": _FINISHED.get(reason, reason)}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens", 0),
            "completion_tokens": usage.get("output_tokens", 0),
            "total_tokens": usage.get("total_tokens", 0),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }
