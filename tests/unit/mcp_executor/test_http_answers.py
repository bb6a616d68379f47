"""What is asked of MCP servers over HTTP, and what is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from services.mcp_executor.http_answers import HTTP_REFUSED, MOST_EVENTS, TOO_LARGE, McpTransport


async def test_what_a_server_says_unasked_is_not_listened_to() -> None:
    transport = McpTransport(1000)
    # No socket is opened for it, which would fail here.
    answer = await transport.handle_async_request(httpx2.Request("GET", "https://tickets.example.com/mcp"))
    assert answer.status_code == 405
    await transport.aclose()


class Parts(httpx2.AsyncByteStream):
    """A body that comes in small parts."""

    def __init__(self, body: bytes, size: int) -> None:
        self._parts = [body[start : start + size] for start in range(0, len(body), size)]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


async def answered(kind: str, body: bytes, size: int, status: int = 200, most_bytes: int = 1000) -> bytes:
    """What is read of an answer, of whose messages none may be larger than 1,000 bytes."""
    transport = McpTransport(200_000 if status >= 400 else most_bytes)

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": kind}, stream=Parts(body, size))

    transport._sending = httpx2.MockTransport(answer)  # type: ignore[assignment]
    asked = {"jsonrpc": "2.0", "id": 3, "method": "tools/call"}
    response = await transport.handle_async_request(httpx2.Request("POST", "https://x.example.com/mcp", json=asked))
    return await response.aread()


@pytest.mark.parametrize("size", [1, 3, 400, 100_000])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n"])
async def test_events_are_read_up_to_one_that_is_too_large(size: int, end: str) -> None:
    events = [f"event: message\ndata: {'x' * 900}{end}".encode()] * 3
    assert await answered("text/event-stream", b"".join(events), size) == b"".join(events)
    large = f"data: {'x' * 1000}{end}".encode()
    read = await answered("text/event-stream", events[0] + large + events[0], size)
    before, _, said = read.rpartition(b"event: message\ndata: ")
    error = json.loads(said)
    assert (before.strip(), error["id"], error["error"]["code"]) == (events[0].strip(), 3, TOO_LARGE)


@pytest.mark.parametrize("size", [1, 400, 100_000])
async def test_small_events_that_are_too_many_are_said_to_be_so(size: int) -> None:
    event = b"event: message\ndata: " + b"x" * 78 + b"\n\n"
    read = await answered("text/event-stream", event * 41, size)
    before, _, said = read.rpartition(b"event: message\ndata: ")
    error = json.loads(said)
    assert (before, error["id"], error["error"]["code"]) == (event * (len(before) // len(event)), 3, TOO_LARGE)


async def test_notifications_without_an_end_are_read_no_further() -> None:
    event = b"data: {}\n\n"  # within all bounds of bytes
    read = await answered("text/event-stream", event * 20_000 + b"data: late\n\n", 1000, most_bytes=100_000)
    assert MOST_EVENTS <= read.count(event) < MOST_EVENTS + 200
    assert json.loads(read.rpartition(b"data: ")[2])["error"]["code"] == TOO_LARGE


async def test_a_message_that_is_too_large_is_said_to_be_so() -> None:
    assert await answered("application/json", b"x" * 1000, 100) == b"x" * 1000
    said = json.loads(await answered("application/json", b"x" * 1001, 100))
    assert (said["id"], said["error"]["message"]) == (3, "the answer is larger than 1,000 bytes")


HALVES = {
    r"a\ud83d": r"a\ufffd",
    r"\uDE00b": r"\ufffdb",
    r"\ud83d\ude00": r"\ud83d\ude00",
    r"\ud83d\ud83d\ude00": r"\ufffd\ud83d\ude00",
    r"\\ud83d \\\ud83d": r"\\ud83d \\\ufffd",
}


@pytest.mark.parametrize("text", HALVES)
async def test_of_a_character_that_was_cut_in_half_the_rest_is_read(text: str) -> None:
    message = f'{{"jsonrpc": "2.0", "id": 3, "result": {{"text": "{text}"}}}}'
    read = message.replace(text, HALVES[text])
    assert await answered("application/json", message.encode(), 100) == read.encode()
    assert await answered("text/event-stream", f"data: {message}\n\n".encode(), 100) == f"data: {read}\n\n".encode()


@pytest.mark.parametrize("body", [b"", b"<h1>Bad gateway</h1>", b"[" * 100_000, b"1" * 100_000, b'{"error": {}}'])
@pytest.mark.parametrize("status", [400, 502])
async def test_of_a_refusal_in_other_words_the_status_is_told(status: int, body: bytes) -> None:
    error = json.loads(await answered("application/json", body, 400, status))["error"]
    assert (error["code"], error["data"]) == (HTTP_REFUSED, {"http_status": status, "in_session": False})
