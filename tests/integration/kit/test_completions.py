"""Chat completions over HTTP: what is repeated, how long, and what is told of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tenacity import AsyncRetrying

from services.kit.models.completions import (
    LONGEST_WAIT_S,
    MOST_ANSWER_BYTES,
    TOOL_USE_FAILED,
    CompletionError,
    Completions,
    Endpoint,
)
from services.kit.models.streamed import ESTIMATED, heard_by
from services.kit.wire import deadline
from tests.fixtures.ports import reserved_port

USED = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
SILENT = {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}
GOOD = {**SILENT, "usage": USED}


class Model:
    """An endpoint that answers with each of some replies in turn, the last one for good."""

    def __init__(self) -> None:
        self.replies: list[Callable[[], web.Response]] = []
        self.requests: list[tuple[web.Request, object]] = []
        self.base_url = ""
        self.hangs = False

    async def answer(self, request: web.Request) -> web.Response:
        """Answers one request."""
        self.requests.append((request, await request.json()))
        if self.hangs:
            await asyncio.Event().wait()
        return self.replies[min(len(self.requests), len(self.replies)) - 1]()


def good() -> web.Response:
    return web.json_response(GOOD)


def failure(status: int, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.json_response({"error": "no"}, status=status, headers=headers)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    made = Model()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.base_url = f"http://{host}:{port}/v1/"
    yield made
    await runner.cleanup()


async def create(base_url: str, *, retries: int = 2, timeout_s: float = 60) -> dict[str, object]:
    made = Completions(Endpoint(base_url, "secret", timeout_s, retries))
    try:
        return await made.create({"model": "m", "messages": [], "timeout": 5, "extra_headers": {}})
    finally:
        await made.close()


class Heard:
    """What was said of an answer while it came, attempt by attempt."""

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def begin(self) -> None:
        self.attempts.append("")

    def say(self, text: str) -> None:
        self.attempts[-1] += text


def events(*chunks: dict[str, Any], done: bool = True) -> Callable[[], web.Response]:
    """A stream of chunks."""
    body = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks) + ("data: [DONE]\n\n" if done else "")
    return lambda: web.Response(body=f": begin\n\n{body}".encode(), content_type="text/event-stream")


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "a", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


HI = [piece(role="assistant", content="h"), piece(content="i"), piece("stop")]


async def test_an_answer_that_is_heard_is_that_of_the_api_as_a_whole(model: Model) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    model.replies = [events(*HI[:2], piece(tool_calls=[call]), piece("tool_calls", tool_calls=[rest]), {"usage": USED})]
    heard = Heard()
    with heard_by(heard):
        answer: Any = await create(model.base_url)
    assert heard.attempts == ["hi"]
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"], answer["usage"]) == ("hi", "tool_calls", USED)
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert choice["message"]["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    [(_, body)] = model.requests
    assert body == {"model": "m", "messages": [], "stream": True, "stream_options": {"include_usage": True}}


async def test_a_stream_that_breaks_off_is_heard_anew(model: Model) -> None:
    model.replies = [events(*HI[:1], done=False), events(*HI, {"usage": USED})]
    heard = Heard()
    with heard_by(heard):
        await create(model.base_url)
    assert heard.attempts == ["h", "hi"]


@pytest.mark.parametrize("silent", [lambda: web.json_response(SILENT), events(*HI)])
async def test_what_an_endpoint_does_not_say_is_estimated_and_it_is_streamed_from_no_more(
    model: Model, silent: Callable[[], web.Response]
) -> None:
    model.replies = [silent, good]
    made, heard = Completions(Endpoint(model.base_url, "secret", 60, 0)), Heard()
    with heard_by(heard):
        answer = await made.create({"model": "m", "messages": [{"role": "user", "content": "x" * 40}]})
        await made.create({"model": "m", "messages": []})
    await made.close()
    assert heard.attempts == ["hi"]
    assert answer["usage"]["prompt_tokens"] >= 10
    assert answer["usage"]["completion_tokens"] > 0
    assert [bool(body.get("stream")) for _, body in model.requests] == [True, False]  # type: ignore[attr-defined]


async def test_an_endpoint_that_takes_no_streams_is_asked_for_the_whole(model: Model) -> None:
    refusal = {"error": {"message": "stream_options is not supported", "type": "invalid_request_error"}}
    model.replies = [lambda: web.json_response(refusal, status=400), good]
    heard = Heard()
    with heard_by(heard):
        assert await create(model.base_url) == GOOD
    assert [bool(body.get("stream")) for _, body in model.requests] == [True, False]  # type: ignore[attr-defined]


async def failed(base_url: str, *, retries: int = 2, timeout_s: float = 60) -> CompletionError:
    with pytest.raises(CompletionError) as caught:
        await create(base_url, retries=retries, timeout_s=timeout_s)
    return caught.value


async def test_the_request_is_the_api_s_and_nothing_more(model: Model) -> None:
    model.replies = [good]
    assert await create(model.base_url) == GOOD
    [(request, body)] = model.requests
    assert request.headers["Authorization"] == "Bearer secret"
    assert body == {"model": "m", "messages": []}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
async def test_what_fails_in_passing_is_asked_again(model: Model, status: int) -> None:
    model.replies = [failure(status), good]
    assert await create(model.base_url) == GOOD
    assert len(model.requests) == 2


async def test_the_endpoint_says_when_to_ask_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("services.kit.models.completions.AsyncRetrying", partial(AsyncRetrying, sleep=wait))
    model.replies = [failure(429, **{"Retry-After": seconds}) for seconds in ("0.7", "5", "3600")] + [good]
    await create(model.base_url, retries=3)
    assert waits == [0.7, 5, LONGEST_WAIT_S]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_would_fail_again_is_asked_once(model: Model, status: int) -> None:
    model.replies = [failure(status)]
    error = await failed(model.base_url)
    assert (error.kind, error.retryable, len(model.requests)) == (f"http_{status}", False, 1)
    assert "secret" not in str(error)


async def test_an_account_that_is_used_up_is_a_no(model: Model) -> None:
    """As OpenAI words it; any other 429 passes."""
    quota = {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
    model.replies = [lambda: web.json_response({"error": quota}, status=429, headers={"Retry-After": "0"}), good]
    error = await failed(model.base_url)
    assert (error.kind, error.retryable, len(model.requests)) == ("http_429", False, 1)
    assert "You exceeded your current quota." in str(error)


async def test_retries_come_to_an_end(model: Model) -> None:
    model.replies = [failure(503, **{"Retry-After": "0"})]
    error = await failed(model.base_url, retries=2)
    assert (error.kind, error.retryable, len(model.requests)) == ("http_503", True, 3)


async def test_the_timeout_is_for_all_attempts_together(model: Model) -> None:
    model.replies = [failure(503, **{"Retry-After": "0.2"})]
    error = await failed(model.base_url, retries=1000, timeout_s=1)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert len(model.requests) < 1000


async def test_a_model_that_hangs_is_given_up(model: Model) -> None:
    model.hangs = True
    assert (await failed(model.base_url, timeout_s=0.3)).kind == "timeout"


async def test_the_served_call_s_deadline_goes_before_the_timeout(model: Model) -> None:
    model.hangs = True
    deadline.set_remaining(0.3)
    try:
        assert (await failed(model.base_url, timeout_s=86_400)).kind == "timeout"
    finally:
        deadline.set_remaining(None)


async def test_nobody_listens() -> None:
    with reserved_port() as port:
        error = await failed(f"http://127.0.0.1:{port}/v1", retries=1)
    assert (error.kind, error.retryable) == ("connection", True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html>", "not_json"),
        ("", "not_json"),
        ("[]", "no_choice"),
        ('{"choices": []}', "no_choice"),
        ('{"choices": null}', "no_choice"),
        ("{}", "no_choice"),
    ],
)
async def test_an_answer_that_is_none_is_an_outage(model: Model, body: str, kind: str) -> None:
    model.replies = [lambda: web.Response(text=body, content_type="text/html")]
    error = await failed(model.base_url, retries=1)
    assert (error.kind, error.retryable, len(model.requests)) == (kind, True, 2)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "no such key", "code": 401}, "error_401", False),
        ({"message": "no such key", "type": "authentication_error"}, "error_for_answer", False),
        ({"message": "no such key", "code": "context_length_exceeded"}, "error_for_answer", False),
        ({"message": "no such key", "code": 429}, "error_429", True),
        ({"message": "no such key", "code": 502}, "error_502", True),
        ("no such key", "error_for_answer", True),
    ],
)
async def test_an_error_for_an_answer_is_what_it_says(model: Model, error: object, kind: str, retryable: bool) -> None:
    model.replies = [lambda: web.json_response({"error": error, "choices": None})]
    found = await failed(model.base_url, retries=1)
    assert (found.kind, found.retryable, len(model.requests)) == (kind, retryable, 1 + retryable)
    assert found.said == "no such key"


async def test_an_answer_of_nothing_is_asked_for_again_with_that_said_and_all_tries_are_charged(model: Model) -> None:
    nothing = {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}], "usage": USED}
    model.replies = [lambda: web.json_response(nothing), lambda: web.json_response(nothing), good]
    answer: Any = await create(model.base_url)
    assert answer["choices"] == GOOD["choices"]
    assert answer["usage"] == {name: 3 * count for name, count in USED.items()}
    told: list[Any] = [body["messages"] for _, body in model.requests if isinstance(body, dict)]
    assert [len(messages) for messages in told] == [0, 1, 2]
    assert "empty" in told[1][0]["content"]
    model.replies = [lambda: web.json_response(nothing)]
    at_last: Any = await create(model.base_url, retries=1)
    assert (at_last["choices"], at_last["usage"]["total_tokens"]) == (nothing["choices"], 20)


@pytest.mark.parametrize("then", ["an outage", "no answer in time"])
async def test_what_an_answer_of_nothing_took_is_told_where_none_comes_after_it(model: Model, then: str) -> None:
    nothing = {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}], "usage": USED}

    def hang() -> web.Response:
        model.hangs = True
        return web.json_response(nothing)

    if then == "an outage":
        model.replies = [lambda: web.json_response(nothing), lambda: web.json_response(nothing), failure(503)]
        times = 2
    else:
        model.replies, times = [hang], 1
    error = await failed(model.base_url, timeout_s=2)
    assert (error.retryable, error.took) == (True, {name: times * count for name, count in USED.items()})


async def test_a_call_behind_nothing_that_could_not_be_read_is_told_to_whoever_asked(model: Model) -> None:
    nothing = {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}], "usage": USED}
    unread = {"error": {"code": "tool_use_failed", "message": "Failed to call a function", "failed_generation": "<f"}}
    model.replies = [lambda: web.json_response(nothing), lambda: web.json_response(unread, status=400)]
    with pytest.raises(CompletionError) as failed:
        await create(model.base_url)
    assert failed.value.kind == TOOL_USE_FAILED


async def test_one_that_may_not_be_told_has_answered_with_nothing(model: Model) -> None:
    nothing = {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}], "usage": USED}
    model.replies = [lambda: web.json_response(nothing), lambda: web.json_response({"error": "roles"}, status=400)]
    assert await create(model.base_url) == nothing


@pytest.mark.parametrize("choice", [{"text": "hi"}, {"delta": {"content": "hi"}}])
async def test_a_message_may_be_called_otherwise(model: Model, choice: dict[str, object]) -> None:
    model.replies = [lambda: web.json_response({"choices": [choice]})]
    answer: Any = await create(model.base_url)
    assert answer["choices"][0]["message"] == {"content": "hi"}


async def test_a_call_that_the_endpoint_could_not_read_is_told_apart_from_a_refusal(model: Model) -> None:
    """As Groq says it."""
    error = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    model.replies = [lambda: web.json_response({"error": error}, status=400)]
    caught = await failed(model.base_url)
    assert (caught.kind, caught.said, caught.retryable) == ("tool_use_failed", "Failed to call a function.", False)


async def test_an_endpoint_that_answers_byte_by_byte_outlasts_no_limit() -> None:
    written = 0

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                written += 1
                await asyncio.sleep(0.02)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        error = await failed(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", timeout_s=0.5, retries=5)
    finally:
        server.close()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert written > 1


async def test_half_of_a_surrogate_pair_is_taken(model: Model) -> None:
    text = '{"choices": [{"message": {"content": "\\ud83d"}}]}'
    model.replies = [lambda: web.Response(text=text, content_type="application/json")]
    assert "choices" in await create(model.base_url)


@pytest.mark.parametrize(
    "usage",
    [
        *({"prompt_tokens": each, "completion_tokens": 1} for each in (-5, 1.5, 1e30, True, "many", [7], 10**12)),
        {"prompt_tokens": 7, "completion_tokens": "-1"}, {"prompt_tokens": 0, "completion_tokens": 0}, {}, "7", [7], 7,
    ],
)  # fmt: skip
async def test_tokens_that_are_no_count_are_estimated(model: Model, usage: object) -> None:
    """They are added up, stored and told in messages, which can hold nothing else; the answer is one all the same."""
    model.replies = [lambda: web.json_response(GOOD | {"usage": usage})]
    answer: Any = await create(model.base_url)
    assert (answer["choices"], answer[ESTIMATED]) == (GOOD["choices"], True)
    assert 0 < answer["usage"]["total_tokens"] < 100
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 5.0, "completion_tokens": None, "total_tokens": 5}, (5, 0, None)),
        ({"prompt_tokens": "5", "completion_tokens": 2, "total_tokens": -1}, (5, 2, None)),
        ({"input_tokens": 5, "output_tokens": 2}, (5, 2, None)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, (5, 2, 4)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}, (5, 2, 5)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": "x"}}, (5, 2, None)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": [4]}, (5, 2, None)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": "none"}, (5, 2, None)),
    ],
)
async def test_a_count_is_one_however_it_is_written_and_what_is_beside_it(
    model: Model, usage: dict[str, Any], counts: tuple[int, int, int | None]
) -> None:
    model.replies = [lambda: web.json_response(GOOD | {"usage": usage, "service_tier": "flex"})]
    answer: Any = await create(model.base_url)
    told, details = answer["usage"], answer["usage"].get("prompt_tokens_details") or {}
    assert (told["prompt_tokens"], told["completion_tokens"], details.get("cached_tokens")) == counts
    assert all(type(each) is int for each in (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]))
    assert "service_tier" not in answer


async def test_an_answer_larger_than_any_message_is_not_read_to_its_end(model: Model) -> None:
    model.replies = [lambda: web.Response(text="x" * (MOST_ANSWER_BYTES + 1), content_type="application/json")]
    with pytest.raises(CompletionError) as caught:
        await create(model.base_url)
    assert (caught.value.kind, caught.value.retryable) == ("too_large", False)


async def test_json_too_deep_to_be_read_is_none(model: Model) -> None:
    model.replies = [lambda: web.Response(text="[" * 200_000, content_type="application/json")]
    with pytest.raises(CompletionError) as caught:
        await create(model.base_url)
    assert caught.value.kind == "not_json"
