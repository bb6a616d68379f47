"""Chat completions over HTTP: what is repeated, how long, and what is told of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tenacity import AsyncRetrying

from services.kit.models.answers import mend
from services.kit.models.completions import (
    DEEPEST_ANSWER,
    LONGEST_WAIT_S,
    MOST_ANSWER_BYTES,
    TOOL_USE_FAILED,
    CompletionError,
    Completions,
    Endpoint,
)
from services.kit.models.provider_words import says_too_long
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


def called(*names: str | None, id_: str | None = None, at: int | None = 0, arguments: Any = "") -> list[dict[str, Any]]:
    return [
        {"id": id_, "function": {"name": name, "arguments": arguments}} | ({} if at is None else {"index": at})
        for name in names
    ]


ONE, TWO = ("look", {"at": 1}), ("look", {"at": 2})
BOTH = ['{"at": 1}', '{"at": 2}']


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # as OpenAI has them
        ([called("look", id_="a"), called(None, arguments=BOTH[0][:5]), called(None, arguments=BOTH[0][5:])], [ONE]),
        # two with the same number, or none, as Gemini's and Ollama's endpoints number them
        ([called("look", id_="a", arguments=BOTH[0]), called("look", id_="b", arguments=BOTH[1])], [ONE, TWO]),
        ([called("look", arguments=BOTH[0]), called("look", arguments=BOTH[1])], [ONE, TWO]),
        ([called("look", id_="a", at=None, arguments=BOTH[0]), called("look", id_="b", at=None, arguments=BOTH[1])],
         [ONE, TWO]),
        ([called("look", id_="a", at=None), called(None, at=None, arguments=BOTH[0]),
          called("look", id_="b", at=None), called(None, at=None, arguments=BOTH[1])], [ONE, TWO]),
        # in one piece, without numbers
        ([called("look", at=None, arguments=BOTH[0]) + called("look", at=None, arguments=BOTH[1])], [ONE, TWO]),
        # name and id with each piece
        ([called("look", id_="a", arguments=BOTH[0][:5]), called("look", id_="a", arguments=BOTH[0][5:])], [ONE]),
        # an object, numbers as text, an empty id, one id for two
        ([called("look", arguments={"at": 1})], [ONE]),
        ([[{"index": "1", "id": "", "function": {"name": "look", "arguments": BOTH[0]}}]], [ONE]),
        ([called("look", id_="a", at=0, arguments=BOTH[0]), called("look", id_="a", at=1, arguments=BOTH[1])],
         [ONE, TWO]),
        # in another order than they are numbered
        ([called("look", id_="b", at=1, arguments=BOTH[1]), called("look", id_="a", at=0, arguments=BOTH[0])],
         [ONE, TWO]),
    ],
)  # fmt: skip
async def test_calls_in_a_stream_are_told_apart(model: Model, pieces: list[Any], calls: list[Any]) -> None:
    chunks = [piece(tool_calls=each) for each in pieces]
    model.replies = [events(*chunks, piece("tool_calls"), {"usage": USED})]
    with heard_by(Heard()):
        answer: Any = await create(model.base_url)
    mend(answer, {"look": {}})
    made = [call["function"] for call in answer["choices"][0]["message"]["tool_calls"]]
    assert [(each["name"], json.loads(each["arguments"])) for each in made] == calls
    assert len({call["id"] for call in answer["choices"][0]["message"]["tool_calls"]}) == len(calls)


def in_pieces(text: str, size: int, **headers: str) -> bytes:
    """A response of chunks of so many bytes, also within a character."""
    body = text.encode()
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    written = b"".join(f"{len(each):x}\r\n".encode() + each + b"\r\n" for each in chunks)
    told = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **headers}
    return (
        "\r\n".join(["HTTP/1.1 200 OK", *(f"{k}: {v}" for k, v in told.items()), "", ""]).encode()
        + written
        + b"0\r\n\r\n"
    )


SAID = [
    piece(role="assistant", content="Größe: 4 \u4eba"),
    piece(content=" \U0001f600"),
    piece("stop"),
    {"usage": USED},
]
BEGUN = f"data: {json.dumps(SAID[0])}\n\n"
LINES = "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in SAID)


@pytest.mark.parametrize(
    "text",
    [
        LINES + "data: [DONE]\n\n",
        LINES,
        # Some say by that alone that it is the end.
        LINES.replace('"finish_reason": "stop"', '"finish_reason": null') + "data: [DONE]\n\n",
        LINES.replace("\n", "\r\n"),
        LINES.replace("data: ", "data:"),
        LINES.replace("data: ", "event: message\nid: 7\nretry: 10\ndata: "),
        ": ping\n\n" + LINES,
        'data: {"choices": [], "usage": null}\n\n' + LINES,
        LINES.replace('"finish_reason": null', '"finish_reason": ""'),
        # What is used comes first, and what is said after the end.
        f"data: {json.dumps(SAID[3])}\n\ndata: {json.dumps(SAID[2])}\n\n" + LINES,
        LINES.replace('"index": 0', '"index": null'),
        LINES.rstrip(),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_stream_is_read_however_it_comes_and_also_where_none_was_asked_for(
    text: str, size: int, is_heard: bool
) -> None:
    heard = Heard() if is_heard else None
    async with raw(in_pieces(text, size)) as base_url:
        with heard_by(heard):
            answer: Any = await create(base_url, retries=0)
    assert answer["choices"][0]["message"]["content"] == "Größe: 4 \u4eba \U0001f600"
    assert answer["usage"] == USED
    assert heard is None or heard.attempts == ["Größe: 4 \u4eba \U0001f600"]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ('data: {"error": {"message": "it broke", "code": 500}}\n\n', "error_500", "it broke"),
        (LINES[:80] + '\n\ndata: {"error"', "not_json", ""),
        (BEGUN + 'data: {"error": {"message": "it broke", "code": 502}}\n\n', "error_502",
         "it broke"),
        (BEGUN + 'event: error\ndata: {"object": "error", "message": "it broke"}\n\n',
         "error_for_answer", "it broke"),
        (BEGUN, "connection", ""),
        ('data: {"choices": [{"delta": "hi"}]}\n\n', "not_the_apis_form", ""),
        ('data: "hi"\n\n', "not_the_apis_form", ""),
        ("", "no_choice", ""),
        ("data: [DONE]\n\n", "no_choice", ""),
        (": ping\n\n" * 1000, "no_choice", ""),
    ],
)  # fmt: skip
async def test_a_stream_that_is_no_answer_is_an_outage_in_its_words(text: str, kind: str, said: str) -> None:
    async with raw(in_pieces(text, 100)) as base_url:
        with heard_by(Heard()):
            error = await failed(base_url, retries=0)
    assert (error.kind, error.retryable, error.said) == (kind, True, said)


@asynccontextmanager
async def raw(response: bytes) -> AsyncIterator[str]:
    """An endpoint that answers with these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"}")
            writer.write(response)
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def packed(content: bytes, encoding: str) -> bytes:
    """A response that says how it is packed."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {encoding}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (lambda: packed(gzip.compress(b" " * 300_000_000, 9), "gzip"), "too_large"),
        (lambda: packed(zlib.compress(b" " * 300_000_000, 9), "deflate"), "too_large"),
        (lambda: packed(b"{}", "gzip"), "connection"),
        (lambda: packed(gzip.compress(b"{}" * 99)[:-20], "gzip"), "not_json"),
        (lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "connection"),
        (lambda: b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", "connection"),
        (lambda: b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10**6, "connection"),
        (lambda: b"HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n", "http_999"),
        (lambda: b"SSH-2.0-OpenSSH_9.2\r\n", "connection"),
        (lambda: b"", "connection"),
        (lambda: b"HTTP/1.1 204 No Content\r\n\r\n", "http_204"),
    ],
)
async def test_bytes_that_are_no_answer_are_bounded_and_named(response: Callable[[], bytes], kind: str) -> None:
    sent = response()
    tracemalloc.start()
    async with raw(sent) as base_url:
        error = await failed(base_url, retries=0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.kind == kind
    assert most < 64 * 1024 * 1024


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


@pytest.mark.parametrize("status", [408, 409, 425, 429, 498, 500, 502, 503, 529])
async def test_what_fails_in_passing_is_asked_again(model: Model, status: int) -> None:
    model.replies = [failure(status), good]
    assert await create(model.base_url) == GOOD
    assert len(model.requests) == 2


async def test_the_endpoint_says_when_to_ask_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("services.kit.models.completions.AsyncRetrying", partial(AsyncRetrying, sleep=wait))
    past, future = (format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True) for hours in (-1, 1))
    asked = {"0.7": 0.7, "5": 5, "3600": LONGEST_WAIT_S, "999999999": LONGEST_WAIT_S, past: 0, future: LONGEST_WAIT_S}
    model.replies = [failure(429, **{"Retry-After": each}) for each in asked] + [good]
    await create(model.base_url, retries=len(asked))
    assert waits == list(asked.values())


@pytest.mark.parametrize(
    "said",
    [
        "-5",
        "soon",
        "nan",
        "inf",
        "1e9",
        "9" * 400,
        "\u0663",
        "Fri, 99 Nov 2026",
        "Fri, 27 Nov 99999999999 00:00:00 GMT",
        "",
    ],
)
async def test_when_to_ask_again_that_is_no_time_is_passed_over(
    model: Model, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("services.kit.models.completions.AsyncRetrying", partial(AsyncRetrying, sleep=wait))
    model.replies = [failure(503, **{"Retry-After": said}), good]
    await create(model.base_url, retries=1)
    [waited] = waits
    assert 0 <= waited < 1


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 422, 451])
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
        ("all are busy", "error_for_answer", True),
        ({"message": "prompt is too long: 300 tokens", "code": 500}, "error_500", False),
    ],
)
async def test_an_error_for_an_answer_is_what_it_says(model: Model, error: object, kind: str, retryable: bool) -> None:
    model.replies = [lambda: web.json_response({"error": error, "choices": None})]
    found = await failed(model.base_url, retries=1)
    assert (found.kind, found.retryable, len(model.requests)) == (kind, retryable, 1 + retryable)
    assert found.said in (error, *(error.values() if isinstance(error, dict) else ()))


BROKEN = {"message": {"content": ""}, "finish_reason": "error"}


@pytest.mark.parametrize(
    ("answer", "said", "retryable"),
    [
        # vLLM, Cloudflare, MiniMax, FastAPI, OpenRouter, Mistral
        ({"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}, "no such model", False),
        ({"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}, "Authentication", False),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "login fail", False),
        ({"detail": "Model is loading"}, "Model is loading", True),
        ({"choices": [BROKEN | {"error": {"code": 502, "message": "bad"}}]}, "bad", True),
        ({"choices": [BROKEN | {"error": {"code": 403, "message": "no"}}]}, "no", False),
        ({"choices": [{"message": {"content": "I th"}, "finish_reason": "error"}]}, "finish_reason: error", True),
    ],
)  # fmt: skip
async def test_what_says_something_else_than_an_answer_is_told_in_its_words(
    model: Model, answer: object, said: str, retryable: bool
) -> None:
    model.replies = [lambda: web.json_response(answer)]
    found = await failed(model.base_url, retries=1)
    assert (found.retryable, len(model.requests)) == (retryable, 1 + retryable)
    assert said in found.said


@pytest.mark.parametrize(
    ("status", "said", "retryable"),
    [
        (500, "the request exceeds the available context size, try increasing it", False),
        (503, "This model's maximum context length is 4096 tokens", False),
        (429, "Request too large for model: Limit 6000, Requested 9000", False),
        (429, "Too many tokens, please wait before trying again.", True),
        (500, "it broke", True),
    ],
)
async def test_a_prompt_that_is_too_long_is_one_whatever_its_status(
    model: Model, status: int, said: str, retryable: bool
) -> None:
    model.replies = [lambda: web.json_response({"error": {"message": said}}, status=status)]
    found = await failed(model.base_url, retries=1)
    assert (found.retryable, len(model.requests)) == (retryable, 1 + retryable)
    assert retryable or says_too_long(str(found))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_key_goes_to_no_other_endpoint_than_the_one_that_is_set(model: Model, status: int) -> None:
    other = model.base_url.replace("127.0.0.1", "localhost") + "chat/completions"
    model.replies = [lambda: web.Response(status=status, headers={"Location": f"{other}?api_key=secret"}), good]
    found = await failed(model.base_url)
    assert (found.kind, found.retryable, len(model.requests)) == (f"http_{status}", False, 1)
    assert other in found.said
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("MAX_TOKENS", "length"), ("model_length", "length"), ("LENGTH", "length"), ("SAFETY", "content_filter"),
        ("refusal", "content_filter"), ("STOP", "stop"), ("eos", "eos"), ("", ""), (None, None), (7, None),
        ([], None), ({"a": 1}, None),
    ],
)  # fmt: skip
async def test_why_an_answer_ended_is_known_by_other_names(model: Model, reason: object, told: object) -> None:
    model.replies = [lambda: web.json_response({"choices": [{"message": {"content": "h"}, "finish_reason": reason}]})]
    answer: Any = await create(model.base_url)
    assert answer["choices"][0]["finish_reason"] == told
    assert len(model.requests) == 1


async def test_an_error_beside_an_answer_that_is_whole_is_none(model: Model) -> None:
    whole = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    model.replies = [lambda: web.json_response({"choices": [whole], "error": {"code": 0, "message": ""}})]
    answer: Any = await create(model.base_url)
    assert answer["choices"] == [whole]


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


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("is_heard", [False, True])
async def test_an_endpoint_that_answers_byte_by_byte_outlasts_no_limit(kind: str, is_heard: bool) -> None:
    written = 0

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                written += 1
                await asyncio.sleep(0.02)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        with heard_by(Heard() if is_heard else None):
            error = await failed(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", timeout_s=0.5, retries=5)
    finally:
        server.close()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert written > 1


async def test_half_of_a_surrogate_pair_is_taken(model: Model) -> None:
    text = '{"choices": [{"message": {"content": "\\ud83d"}}]}'
    model.replies = [lambda: web.Response(text=text, content_type="application/json")]
    assert "choices" in await create(model.base_url)


async def test_half_of_a_surrogate_pair_is_taken_from_a_stream_and_from_an_error(model: Model) -> None:
    model.replies = [events(piece(content="a\ud83d"), piece("stop"))]
    with heard_by(Heard()):
        answer: Any = await create(model.base_url)
    assert answer["choices"][0]["message"]["content"] == "a\ud83d"
    half = {"choices": [{"message": {}, "error": {"message": "it broke \ud83d"}}]}
    model.replies = [lambda: web.Response(text=json.dumps(half), content_type="application/json")]
    assert "it broke" in (await failed(model.base_url, retries=0)).said


@pytest.mark.parametrize(
    "usage",
    [
        *({"prompt_tokens": each, "completion_tokens": 1} for each in (-5, 1.5, 1e30, True, "many", [7], 10**12)),
        {"prompt_tokens": 7, "completion_tokens": "-1"}, {"prompt_tokens": 0, "completion_tokens": 5}, {}, "7", [7], 7,
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


@pytest.mark.parametrize("depth", [DEEPEST_ANSWER + 3, 300, 990])
@pytest.mark.parametrize("place", ["beside", "error", "usage", "stream"])
async def test_an_answer_that_is_nested_too_deep_to_be_kept_is_none(model: Model, depth: int, place: str) -> None:
    said = json.dumps({**GOOD, "nested": None} if place == "beside" else {**SILENT, "nested": None})
    text = {
        "beside": said,
        "error": '{"error": {"message": {"nested": null}}}',
        "usage": said.replace('"nested": null', '"usage": {"prompt_tokens": {"nested": null}}'),
        "stream": f"data: {said}\n\ndata: [DONE]\n\n",
    }[place].replace("null", "[" * depth + "]" * depth)
    kind = "text/event-stream" if place == "stream" else "application/json"
    model.replies = [lambda: web.Response(text=text, content_type=kind)]
    with pytest.raises(CompletionError) as caught:
        await create(model.base_url, retries=0)
    assert (caught.value.kind, caught.value.retryable) == ("not_the_apis_form", True)
