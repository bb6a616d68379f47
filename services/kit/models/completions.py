"""Chat completions over HTTP: the one request that the platform makes of a model, at a tenth of an SDK's CPU.

The openai SDK takes 2.2 ms of CPU for a call, aiohttp with orjson 0.2 (docs/adr/0008-lean-model-calls.md).
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
import orjson
from opentelemetry import trace
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from services.kit.models.provider_words import provider_words, says_too_long
from services.kit.models.span import describe_request, describe_response
from services.kit.models.streamed import (
    DONE,
    ESTIMATED,
    EVENT_STREAM,
    NOBODY,
    STREAMED,
    Hearer,
    StreamedAnswer,
    StreamTooLong,
    estimate_usage,
    events_of,
    hearer,
    unfinished_call,
)
from services.kit.telemetry.tracing import trace_headers
from services.kit.text.exact_json import is_nested_deeper
from services.kit.wire import deadline
from services.kit.wire.silence import notice_silence

Answer = TypeVar("Answer")
# 425: too early. 498: Groq's, where all of it is in use.
RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 498, *range(500, 600)})
# Finish reasons of an answer that is not whole, and so is none.
CUT_SHORT = frozenset({"length", "content_filter"})
# What endpoints call these otherwise: the second is Mistral's.
_CUT_OTHERWISE = {
    **dict.fromkeys(("max_tokens", "model_length", "max_output_tokens", "max_length"), "length"),
    **dict.fromkeys(
        ("safety", "refusal", "recitation", "prohibited_content", "blocklist", "sensitive"), "content_filter"
    ),
}
LONGEST_WAIT_S = 8.0
ACCOUNT_USED_UP = b'"insufficient_quota"'
# A model may take its time, and the timeout is around all attempts; to connect takes none, and may be tried again.
CONNECT_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)
_BACKOFF = wait_exponential(multiplier=0.2, max=LONGEST_WAIT_S) + wait_random(0, 0.2)
# Half of what gRPC takes as a message by default: what came of a larger one could be shown to nobody.
MOST_ANSWER_BYTES = 2 * 1024 * 1024
# More than any model takes, and few enough to be added up for ever.
MOST_TOKENS = 10**9
# Far deeper than any API's form, and as deep as everybody writes who keeps an answer or sends it on.
DEEPEST_ANSWER = 100
# What a chunk of a stream takes that carries one character.
MOST_CHUNK_BYTES = 100
# How an endpoint says that it does not take a request.
_NOT_TAKEN = frozenset({"http_400", "http_404", "http_405", "http_406", "http_415", "http_422", "http_501"})
# What answers call their counts, and what those of other APIs do that some gateways hand on.
_COUNTS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_DETAILS = "prompt_tokens_details"
_NOTHING = "Your last answer was empty. Answer again, in words or by calling a tool."
NOT_THE_APIS_FORM = "not_the_apis_form"
# What Groq says where a model wrote a call that it could not read: asked again, and told, it mostly can.
TOOL_USE_FAILED = "tool_use_failed"
# What an error in the place of an answer is of, where asking again does not help.
_REFUSALS = re.compile(
    r"invalid|authenti|permission|forbidden|not_?found|quota|billing|unsupported|context_length", re.I
)
_REFUSES_KEY = re.compile(r"authenticat|unauthori|(?:api|access)[ _-]?key|login fail|permission denied", re.I)
# What a client library says to itself, and no endpoint needs to hear.
_NOT_SENT = frozenset({"extra_headers", "extra_query", "extra_body", "timeout"})


class CompletionError(Exception):
    """A completion that failed: `kind` for people and metrics, and whether the same request may succeed later.

    `said` is what the endpoint says no with, in its own words; `took` the usage of answers of nothing before it.
    """

    def __init__(
        self, kind: str, message: str, *, retryable: bool, retry_after_s: float | None = None, said: str = ""
    ) -> None:
        super().__init__(message)
        self.took: Mapping[str, Any] = {}
        self.kind = kind
        self.said = said
        self.retryable = retryable
        self.retry_after_s = retry_after_s


Asks = Callable[[list[Any]], Awaitable[dict[str, Any]]]


async def with_nothing_told(ask: Asks, messages: list[Any], retries: int, timeout_s: float) -> dict[str, Any]:
    """Returns an answer; one that says and calls nothing is asked for again, which the model is told of.

    All tries are made within one timeout and the deadline of the call being served, and the usage is that of all. At
    last, or where the endpoint refuses what is told, the one of nothing is the answer, for want of a better one. Raises
    CompletionError.
    """
    earlier: dict[str, Any] = {}
    try:
        async with asyncio.timeout(deadline.remaining(timeout_s)):
            answer = await ask(messages)
            for _ in range(retries):
                if not _says_nothing(answer["choices"][0]):
                    break
                earlier, messages = answer, [*messages, {"role": "user", "content": _NOTHING}]
                try:
                    answer = await ask(messages)
                except CompletionError as error:
                    # A call that nobody could read is for whoever asked to be told of.
                    if error.retryable or error.kind == TOOL_USE_FAILED:
                        raise
                    break
                answer |= _sum_of(earlier, answer)
            return answer
    except asyncio.CancelledError:
        unfinished = unfinished_call()
        unfinished.messages, unfinished.before = messages, earlier.get("usage") or {}
        raise
    except TimeoutError as error:
        late = CompletionError("timeout", "the model took too long", retryable=True)
        late.took = earlier.get("usage") or {}
        raise late from error
    except CompletionError as error:
        error.took = earlier.get("usage") or {}
        raise


def _sum_of(earlier: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what two answers took, with all details of the second, and whether that is an estimate."""
    usage, more = earlier.get("usage") or {}, answer.get("usage") or {}
    total = {**more, **{name: (usage.get(name) or 0) + (more.get(name) or 0) for name in _COUNTS}}
    if cached := sum((each.get(_DETAILS) or {}).get("cached_tokens") or 0 for each in (usage, more)):
        total[_DETAILS] = {**(more.get(_DETAILS) or {}), "cached_tokens": cached}
    return {"usage": total, **({ESTIMATED: True} if earlier.get(ESTIMATED) else {})}


async def repeated(ask: Callable[[], Awaitable[Answer]], retries: int) -> Answer:
    """Returns what an asking brings, repeated after what fails in passing. Raises CompletionError, the last one."""
    unfinished = unfinished_call()

    async def ask_once() -> Answer:
        unfinished.is_sent, unfinished.came = True, {}
        try:
            return await ask()
        except CompletionError:
            unfinished.is_sent = False
            raise

    try:
        return await ask_once()
    except CompletionError as error:
        if not error.retryable:
            raise
        failed = [error]

    async def again() -> Answer:
        if failed:
            raise failed.pop()
        return await ask_once()

    # To prepare this costs as much as a request, and most requests need no second one.
    attempts = AsyncRetrying(
        stop=stop_after_attempt(retries + 1),
        wait=_wait,
        retry=retry_if_exception(lambda error: isinstance(error, CompletionError) and error.retryable),
        reraise=True,
    )
    return await attempts(again)


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint, and how patient to be with it; the timeout is for all attempts together.

    query: added to the URL. The key goes as a bearer's, or as it is in a header of another name.
    """

    base_url: str
    api_key: str
    timeout_s: float
    retries: int
    key_header: str = "Authorization"
    query: tuple[tuple[str, str], ...] = ()


class Completions:
    """Asks an endpoint for chat completions. Whoever makes it closes it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        asked_with = f"?{urlencode(endpoint.query)}" if endpoint.query else ""
        self._url = f"{endpoint.base_url.rstrip('/')}/chat/completions{asked_with}"
        self._session: aiohttp.ClientSession | None = None
        # Until it says otherwise, or does not say in a stream how many tokens that took.
        self._streams = True

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request in the API's form and returns the answer in the API's form. Raises CompletionError.

        The current span is the call's: it is told who was asked, who answered, and how that ended.
        A request that failed in passing (no connection, 408, 409, 429, 5xx, or an answer that is none) is repeated,
        after the time that the endpoint asks for or a growing one, all within one timeout and the deadline of the call
        being served, however slowly the bytes of an answer come in. A call of a tool that the endpoint could not read
        is for whoever asked to be told of; one of nothing is asked for again with that said.
        """
        span = trace.get_current_span()
        describe_request(span, self._endpoint.base_url)
        request = {name: value for name, value in payload.items() if name not in _NOT_SENT}

        async def ask(messages: list[Any]) -> dict[str, Any]:
            return await self._asked({**request, "messages": messages})

        answer = await with_nothing_told(ask, request["messages"], self._endpoint.retries, self._endpoint.timeout_s)
        describe_response(span, answer)
        return answer

    async def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has the answer streamed where somebody wants to hear it, and the endpoint can do so."""
        streamed = hearer() is not None and self._streams
        try:
            answer = await self._answered({**request, **STREAMED} if streamed else request)
        except CompletionError as error:
            if not streamed or error.kind not in _NOT_TAKEN or "stream" not in error.said.lower():
                raise
            self._streams = streamed = False
            answer = await self._answered(request)
        if not answer.get("usage"):
            # Nobody could keep a budget by what it says in a stream: the next is asked for as a whole.
            self._streams = self._streams and not streamed
            estimate_usage(request, answer)
        return answer

    async def _answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        body = orjson.dumps(request)
        return await repeated(lambda: self._post(body), self._endpoint.retries)

    async def _post(self, body: bytes) -> dict[str, Any]:
        try:
            async with self._open().post(
                self._url, data=body, headers=trace_headers(), allow_redirects=False
            ) as response:
                heard = hearer()
                # By what has come: another call may have switched streams off since this one was asked for.
                is_stream = response.status == 200 and response.content_type == EVENT_STREAM
                if is_stream and heard is None:
                    return await _read_stream(response, self._endpoint.api_key, NOBODY)
                if heard is None or not (is_stream or self._streams):
                    return _read(response, await _content(response), self._endpoint.api_key)
                heard.begin()
                if is_stream:
                    return await _read_stream(response, self._endpoint.api_key, heard)
                answer = _read(response, await _content(response), self._endpoint.api_key)
                if isinstance(text := answer["choices"][0]["message"].get("content"), str):
                    heard.say(text)
                return answer
        except (aiohttp.ClientError, OSError) as error:
            raise CompletionError("connection", f"no answer from the model: {error}", retryable=True) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            key, header = self._endpoint.api_key or "none", self._endpoint.key_header
            bearer = header.lower() == "authorization"
            headers = {"Content-Type": "application/json", header: f"Bearer {key}" if bearer else key}
            self._session = aiohttp.ClientSession(
                headers=headers,
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_open_socket),
                # What one caller's answer sets would go with another's question.
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=CONNECT_TIMEOUT,
            )
        return self._session

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    notice_silence(opened)
    return opened


async def _content(response: aiohttp.ClientResponse) -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MOST_ANSWER_BYTES:
            said = f"the model answered with more than {MOST_ANSWER_BYTES} bytes"
            raise CompletionError("too_large", said, retryable=False)
        parts.append(part)
    return b"".join(parts)


def _read(response: aiohttp.ClientResponse, content: bytes, api_key: str) -> dict[str, Any]:
    if response.status != 200:
        said = provider_words(content, api_key)
        # The key is for the endpoint that is set, and for no other that it names.
        if moved := response.headers.get("Location", ""):
            place = provider_words(moved.encode(errors="replace"), api_key)
            said = f"it has moved to {place}, which is then to be the endpoint; {said}"
        is_call = response.status == 400 and TOOL_USE_FAILED.encode() in content
        raise CompletionError(
            TOOL_USE_FAILED if is_call else f"http_{response.status}",
            f"the model's endpoint answered {response.status}: {said}",
            # An account that is used up answers 429 too, and no wait fills it, nor makes a prompt shorter.
            retryable=response.status in RETRYABLE_STATUS
            and ACCOUNT_USED_UP not in content
            and not _is_too_long(response.status, said),
            retry_after_s=_retry_after_s(response.headers.get("Retry-After", "")),
            said=said,
        )
    return _checked(_parse(content), api_key)


def _is_too_long(status: int, said: str) -> bool:
    """Tells whether a prompt is too long by a status that says otherwise: by 5xx, or for the tokens of a minute."""
    return says_too_long(said) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "request too large" in said.lower()


def _retry_after_s(said: str) -> float | None:
    """Returns the seconds that an endpoint asks for, as a number or as a date."""
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", said, re.ASCII):
        return float(said)
    try:
        date = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time()) if date.tzinfo else None


async def _read_stream(response: aiohttp.ClientResponse, api_key: str, heard: Hearer) -> dict[str, Any]:
    streamed = StreamedAnswer(heard)
    most = MOST_ANSWER_BYTES * MOST_CHUNK_BYTES
    try:
        async for data in events_of(response.content.iter_any(), most_bytes=most, most_line_bytes=MOST_ANSWER_BYTES):
            if data == DONE:
                streamed.end()
                continue
            try:
                streamed.take(_parse(data), MOST_ANSWER_BYTES)
            except (TypeError, AttributeError, KeyError, ValueError) as error:
                said = f"a chunk of the model's answer is not of the API's form: {error}"
                raise CompletionError(NOT_THE_APIS_FORM, said, retryable=True) from error
    except StreamTooLong as error:
        raise CompletionError("too_large", str(error), retryable=False) from error
    except asyncio.CancelledError:
        unfinished_call().came = streamed.answer
        raise
    answer = streamed.answer
    # What is an error, or nothing at all, is said to be that.
    if not streamed.is_whole and answer.get("choices"):
        raise CompletionError("connection", "the model's stream ended before its answer did", retryable=True)
    return _checked(answer, api_key)


def _checked(answer: object, api_key: str) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(answer, dict) and (error := _error_of(answer, choice)):
        # Not by orjson, which takes no halves of surrogate pairs.
        raise _error_in(error, provider_words(json.dumps(error).encode(), api_key))
    if not isinstance(answer, dict) or choice is None:
        raise CompletionError("no_choice", "the model answered with no choice", retryable=True)
    if not isinstance(choice, dict) or not isinstance(_message_of(choice), dict):
        raise CompletionError(NOT_THE_APIS_FORM, "the model's answer has no message", retryable=True)
    if "finish_reason" in choice:
        reason = choice["finish_reason"].lower() if isinstance(choice["finish_reason"], str) else None
        choice["finish_reason"] = _CUT_OTHERWISE.get(reason or "", reason)
    _count_whole_tokens(answer)
    return answer


def _error_of(answer: Mapping[str, Any], choice: Any) -> Any:
    """Returns the error in an answer: its own, its choice's, or all of it where it says something else instead."""
    if isinstance(choice, dict):
        # OpenRouter's, of the provider behind it; Mistral's says no more than that. Beside a whole answer it is none.
        failed = choice.get("finish_reason") == "error" and {"message": "finish_reason: error"}
        is_whole = choice.get("finish_reason") and not failed
        return None if is_whole else choice.get("error") or answer.get("error") or failed
    says_else = any(answer.get(name) for name in ("message", "detail", "errors", "base_resp", "status_msg"))
    return answer.get("error") or (answer if says_else else None)


def _error_in(error: object, said: str) -> CompletionError:
    """Returns what an error means that stands in the place of an answer, with status 200."""
    named = error if isinstance(error, dict) else {}
    number = next((each for each in (named.get("code"), named.get("status")) if isinstance(each, int)), 0)
    refused = 400 <= number < 500 and number not in RETRYABLE_STATUS
    if not 400 <= number < 600:
        number = 0
        refused = any(_REFUSALS.search(str(named.get(name) or "")) for name in ("type", "code", "status"))
        refused = refused or _REFUSES_KEY.search(said) is not None
    refused = refused or says_too_long(said)
    kind = f"error_{number}" if number else "error_for_answer"
    return CompletionError(
        kind, f"the model's endpoint answered with an error: {said}", retryable=not refused, said=said
    )


def _message_of(choice: dict[str, Any]) -> Any:
    """Returns a choice's message; one that comes as a stream's or as plain text is made one."""
    if choice.get("message") is None:
        streamed, text = choice.get("delta"), choice.get("text")
        choice["message"] = streamed if isinstance(streamed, dict) else {"content": text} if text is not None else None
    return choice["message"]


def _says_nothing(choice: Mapping[str, Any]) -> bool:
    """Tells whether a choice neither says nor calls anything, though no limit cut it short."""
    message = choice["message"]
    told = any(message.get(name) for name in ("tool_calls", "function_call", "refusal"))
    return message.get("content") is None and not told and choice.get("finish_reason") not in CUT_SHORT


def _count_whole_tokens(answer: dict[str, Any]) -> None:
    """Leaves of what an answer says that it took whole numbers; nothing, where some are none, or there are none."""
    # By it LangChain names the cached tokens otherwise, which for us are those all the same.
    answer.pop("service_tier", None)
    usage = answer.pop("usage", None)
    if not isinstance(usage, dict):
        return
    said = {name: usage.get(name, usage.get(other)) for name, other in _COUNTS.items()}
    counted = {name: 0 if each is None else _count_of(each) for name, each in said.items()}
    prompt, completion = counted["prompt_tokens"], counted["completion_tokens"]
    if not prompt or completion is None:  # every request has something to read
        return
    details = usage.get(_DETAILS)
    cached = _count_of(details.get("cached_tokens")) if isinstance(details, dict) else None
    answer["usage"] = {**counted, "total_tokens": prompt + completion}
    if cached:
        answer["usage"][_DETAILS] = {"cached_tokens": min(cached, prompt)}


def _count_of(said: Any) -> int | None:
    """Returns a number of tokens, however it is written; None for what is none."""
    if isinstance(said, str) and said.isdecimal() and len(said) < len(str(MOST_TOKENS)):
        return int(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MOST_TOKENS or said % 1:
        return None
    return int(said)


def _parse(content: bytes) -> object:
    try:
        answer: object = orjson.loads(content)
    except orjson.JSONDecodeError:
        # The standard library also takes halves of surrogate pairs, which models do write.
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            said = f"the endpoint did not answer with JSON: {content[:80]!r}"
            raise CompletionError("not_json", said, retryable=True) from error
    # Few answers have so many brackets that some could stand so deep.
    if content.count(b"[") + content.count(b"{") > DEEPEST_ANSWER and is_nested_deeper(answer, DEEPEST_ANSWER):
        said = f"the model's answer is nested deeper than {DEEPEST_ANSWER} levels"
        raise CompletionError(NOT_THE_APIS_FORM, said, retryable=True)
    return answer


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    wait_s = error.retry_after_s if isinstance(error, CompletionError) else None
    return min(wait_s, LONGEST_WAIT_S) if wait_s is not None else _BACKOFF(state)
