"""Servers that are away, slow, replaced, or that answer what is no answer; and what is known of calls that they had."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from mcp import Client
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from services.kit.identity.keys import KeyPair
from services.mcp_executor.metrics import CALLS
from tests.fixtures.mcp_server import Served, serving, serving_tickets
from tests.integration.mcp_executor.conftest import Executor, accepted, executing, found, write_servers


async def refusal(executor: Executor, tool: str = "tickets_search") -> tuple[grpc.StatusCode, str]:
    """How a call of a tool that reads fails."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await executor.call(tool, words="login")
    return failed.value.code(), failed.value.details() or ""


ODD = {
    "a page": HTMLResponse("<h1>Login</h1>"),
    "nothing": Response(status_code=200),
    "no JSON-RPC": JSONResponse({"ok": True}),
    "an error of its proxy": HTMLResponse("<h1>Bad gateway</h1>", status_code=502),
    "too many": JSONResponse({"error": "slow down"}, status_code=429),
    "too many, as an error": JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "slow down"}}, status_code=429
    ),
    "what is packed": Response(
        gzip.compress(b" " * 100_000_000), media_type="application/json", headers={"content-encoding": "gzip"}
    ),
    "accepted": Response(status_code=202),
    "elsewhere": RedirectResponse("http://127.0.0.1:1/mcp"),
}


@pytest.mark.parametrize("kind", ODD)
async def test_what_is_no_answer_is_an_absence(tmp_path: Path, keys: KeyPair, tickets: Served, kind: str) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0

    async def odd(_: Request) -> Response:
        return ODD[kind]

    async with executing(file, keys) as executor:
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
        tickets.instead = odd
        code, _ = await refusal(executor)
        assert code is grpc.StatusCode.UNAVAILABLE
        tickets.instead = None
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_a_server_that_is_not_there_is_waited_for(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    write_servers(tmp_path, url="http://127.0.0.1:1/mcp")
    async with executing(file, keys) as executor:
        code, told = await refusal(executor)
    assert (code, "the MCP server tickets does not answer" in told) == (grpc.StatusCode.UNAVAILABLE, True)


async def test_a_server_that_says_nothing_holds_nobody_up_for_long(
    tmp_path: Path, keys: KeyPair, tickets: Served
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    hold = asyncio.Event()

    async def silent(_: Request) -> Response:
        await hold.wait()
        return Response(status_code=500)

    tickets.instead = silent
    async with executing(file, keys, mcp_connect_timeout_s=0.3) as executor:
        code, told = await refusal(executor)
        assert (code, "no connection within 0.3 s" in told) == (grpc.StatusCode.UNAVAILABLE, True)
        hold.set()


def error(code: int, message: str, status: int = 200, request_id: Any = None) -> Response:
    """An error of JSON-RPC."""
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}, status)


# As servers do that have lost their sessions: of the protocol, of its libraries for Python and TypeScript, and of the
# examples that come with the latter, to which a call that is refused looks the same.
LOST = {
    "404": (Response(status_code=404), "2 notes"),
    "404 and an error": (error(-32600, "Session not found", 404), "2 notes"),
    "404 and an error of the server": (error(-32001, "Session not found", 404), "2 notes"),
    "400 and an error": (error(-32000, "Bad Request: No valid session ID provided", 400), "No valid session ID"),
    "400": (Response("Invalid or missing session ID", 400), "HTTP status 400"),
}


@pytest.mark.parametrize("how", LOST)
async def test_a_server_that_begins_anew_is_connected_to_again(
    tmp_path: Path, keys: KeyPair, tickets: Served, how: str
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    answer, told = LOST[how]

    async def restarted(request: Request) -> Response | None:
        body = await request.body()
        if b"server/discover" in body:
            return error(-32601, "Method not found", 404)  # as before there were calls without sessions
        # Of sessions; the first that is asked for is not known any more.
        is_old = "mcp-session-id" in request.headers and request.headers["mcp-session-id"] in gone
        return answer if is_old else None

    gone: set[str] = set()
    tickets.instead = restarted
    async with executing(file, keys) as executor:
        for forgotten in (True, False):
            assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
            if forgotten:
                gone |= set(sessions_of(tickets))
        known = len(sessions_of(tickets))
        gone |= set(sessions_of(tickets))
        written = await executor.call("note", text="x", writes=True)
        assert told in (written.output.text or written.error.message), written
        # Whatever has become of it: the next is on a session that is known.
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
        assert (known, len(sessions_of(tickets))) == (2, 3)
    assert tickets.tickets.calls.count(("add_note", "x")) == written.HasField("output")


def sessions_of(tickets: Served) -> list[str]:
    """The sessions that a server has begun."""
    return list(tickets.server.session_manager._server_instances)


EVENT = 'event: message\ndata: {"jsonrpc": "2.0", "id": %d,\ndata: "error": {"code": -32000, "message": "No room"}}\n\n'
OWN_WORDS: dict[str, Callable[[Any], Response]] = {
    "by the code of a closed connection": lambda asked: error(-32000, "No room", request_id=asked),
    "by the code of a timeout": lambda asked: error(-32001, "No room", request_id=asked),
    "by the code of what is no message": lambda asked: error(-32700, "No room", request_id=asked),
    "by the code of a status": lambda asked: error(-32099, "No room", request_id=asked),
    "as an event": lambda asked: Response(EVENT % asked, media_type="text/event-stream"),
    "by a status": lambda _: error(-32000, "No room", 500),
}


@pytest.mark.parametrize("how", OWN_WORDS)
async def test_an_error_is_an_answer_whatever_its_code(
    tmp_path: Path, keys: KeyPair, tickets: Served, how: str
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0

    async def fails(request: Request) -> Response | None:
        body = await request.body()
        return OWN_WORDS[how](json.loads(body)["id"]) if b"tools/call" in body else None

    tickets.instead = fails
    async with executing(file, keys) as executor:
        for _ in range(7):  # more than make an outage
            answer = await executor.call("tickets_search", words="login")
            assert (answer.error.reason, answer.error.message) == ("tool_failed", "No room")


async def test_a_server_that_does_not_list_its_tools_is_away(
    tmp_path: Path, keys: KeyPair, tickets: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0

    async def fails(request: Request) -> Response | None:
        body = await request.body()
        return error(-32603, "No room", request_id=json.loads(body)["id"]) if b"tools/list" in body else None

    tickets.instead = fails
    assert await accepted(file) == 2
    assert "can't be asked for its tools: No room" in capsys.readouterr().out
    async with executing(file, keys) as executor:
        code, told = await refusal(executor)
        assert (code, "No room" in told) == (grpc.StatusCode.UNAVAILABLE, True)


async def test_of_a_write_without_an_answer_nothing_is_claimed(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    async with executing(file, keys, mcp_call_timeout_s=3) as executor:
        answer = await executor.call("note", text="slow", writes=True)
        assert (answer.error.reason, answer.error.retryable) == ("outcome_unknown", False)
        # Nor is it written again when the same call is repeated.
        assert await executor.call("note", text="slow", writes=True) == answer
        assert tickets.tickets.calls == [("add_note", "slow")]
        # Others are not held up by it.
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_a_write_whose_result_breaks_its_schema_is_not_made_again(
    tmp_path: Path, keys: KeyPair, tickets: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    call_tool = Client.call_tool

    async def breaks(client: Client, name: str, arguments: dict[str, Any]) -> Any:
        result = await call_tool(client, name, arguments)
        return result.model_copy(update={"structured_content": {"result": 1}})

    monkeypatch.setattr(Client, "call_tool", breaks)
    async with executing(file, keys) as executor:
        answer = await executor.call("note", text="x", writes=True)
        assert (answer.error.reason, answer.error.retryable) == ("tool_failed", False)
        assert await executor.call("note", text="x", writes=True) == answer
    assert tickets.tickets.calls == [("add_note", "x")]


async def test_a_stream_without_an_end_is_read_no_further(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0

    async def storm() -> AsyncIterator[bytes]:
        while True:
            yield b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n' * 100
            await asyncio.sleep(0)

    async def storms(request: Request) -> Response | None:
        if b"tools/call" not in await request.body():
            return None
        return StreamingResponse(storm(), media_type="text/event-stream")

    async with executing(file, keys, mcp_answer_bytes=20_000) as executor:
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
        tickets.instead = storms
        answer = await executor.call("tickets_search", words="login")
        assert (answer.error.reason, "larger than 20,000 bytes" in answer.error.message) == ("tool_failed", True)
        tickets.instead = None
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_connections_of_old_tokens_are_closed(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    token = tmp_path / "token"
    token.write_text("0")
    file = write_servers(tmp_path, url=tickets.url, token_file=str(token))
    assert await accepted(file) == 0
    before = {task for task in asyncio.all_tasks() if "_live" in repr(task)}
    async with executing(file, keys) as executor:
        for number in range(3):
            token.write_text(str(number))
            await asyncio.gather(*(executor.call("tickets_search", words="login") for _ in range(4)))
        assert set(tickets.tokens) >= {"0", "1", "2"}
    assert {task for task in asyncio.all_tasks() if "_live" in repr(task)} <= before


async def test_no_more_calls_than_may_be_are_under_way(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    async with executing(file, keys, mcp_calls_at_once=1) as executor:
        slow = asyncio.create_task(executor.call("note", text="slow", writes=True))
        await asyncio.wait_for(tickets.tickets.held.wait(), 10)
        code, _ = await refusal(executor)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        tickets.tickets.hold.set()
        assert (await slow).output.text == "2 notes"
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_what_is_sent_goes_nowhere_else(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    seen: list[str] = []

    async def elsewhere(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    async with serving(elsewhere) as other, serving_tickets() as second:

        async def away(_: Request) -> Response:
            return RedirectResponse(f"{other}/mcp", status_code=307)

        second.instead = away
        write_servers(tmp_path, url=second.url)
        async with executing(file, keys) as executor:
            code, _ = await refusal(executor)
            assert code is grpc.StatusCode.UNAVAILABLE
    assert set(seen) <= {"lifespan"}


async def test_one_servers_outage_holds_back_no_calls_of_another(
    tmp_path: Path, keys: KeyPair, tickets: Served
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    servers = yaml.safe_load(file.read_text())["servers"]
    servers["desk"] = {"url": tickets.url, "calls_at_once": 1, "tools": {"search": {"name": "tickets_junk"}}}
    file.write_text(yaml.safe_dump({"servers": servers}))
    assert await accepted(file) == 0
    servers["tickets"]["url"] = "http://127.0.0.1:1/mcp"
    file.write_text(yaml.safe_dump({"servers": servers}))
    async with executing(file, keys) as executor:
        told = [(await refusal(executor))[1] for _ in range(8)]
        assert ["is away:" in each for each in told[-3:]] == [True] * 3, told
        assert found(await executor.call("tickets_junk", words="login")) == ["Fix login"]
    [count] = [
        sample.value
        for metric in CALLS.collect()
        for sample in metric.samples
        if sample.labels == {"server": "desk", "outcome": "ok"} and sample.name.endswith("_total")
    ]
    assert count >= 1


CALLS_ANSWERED = {
    "with what is no answer": HTMLResponse("<h1>Bad gateway</h1>", status_code=502),
    "never": None,
}


@pytest.mark.parametrize("how", CALLS_ANSWERED)
async def test_a_server_that_lists_its_tools_and_answers_no_call_counts_as_away(
    tmp_path: Path, keys: KeyPair, tickets: Served, how: str
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    over = asyncio.Event()

    async def lists(request: Request) -> Response | None:
        if b"tools/call" not in await request.body():
            return None
        if (answer := CALLS_ANSWERED[how]) is None:
            await over.wait()
        return answer

    tickets.instead = lists
    async with executing(file, keys, mcp_call_timeout_s=1) as executor:
        told = [(await refusal(executor))[1] for _ in range(6)]
        assert ("is away:" in told[0], "is away:" in told[-1]) == (False, True), told
        tickets.instead = None
        over.set()
        assert found(await until_answered(executor)) == ["Fix login"]


async def until_answered(executor: Executor) -> Any:
    """Calls until a server that counts as away is asked again."""
    async with asyncio.timeout(20):
        while True:
            try:
                answer = await executor.call("tickets_search", words="login")
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
            else:
                if answer.HasField("output"):  # a loaded machine may take all of a call's time to hold it to its schema
                    return answer
