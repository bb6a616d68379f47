"""Calls of MCP that a message cancels, at a replica: whichever run they follow, and before they have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import jwt
import pytest
from signalbox.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    questions_pb2,
    questions_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
)
from starlette.applications import Starlette

from services.http_api.event_stream import Streams
from services.http_api.gateway import Gateway
from services.http_api.mcp_endpoint import McpEndpoint
from services.http_api.settings import HttpApiSettings

URL = "http://agents.example.com/mcp"
RUN = "run-1"
CREATE = {"name": "calculator", "arguments": {"messages": []}}
ANSWER = {"name": "answer_run", "arguments": {"run_id": RUN, "answer": "yes"}}
FOLLOW = {"name": "follow_run", "arguments": {"run_id": RUN}}


class Platform(
    runs_pb2_grpc.RunServiceServicer, agents_pb2_grpc.AgentServiceServicer, questions_pb2_grpc.QuestionServiceServicer
):
    """One run, which goes on until it is cancelled, and which no label finds."""

    def __init__(self) -> None:
        self.asked_for, self.may_begin, self.followed, self.over = (asyncio.Event() for _ in range(4))
        self.may_begin.set()
        self.has_ended = False
        self.cancelled = 0

    async def ListAgents(self, _request: Any, _context: Any) -> agents_pb2.ListAgentsResponse:  # noqa: N802 - the proto's name
        """Lists none."""
        return agents_pb2.ListAgentsResponse()

    async def GetQuestion(self, _request: Any, _context: Any) -> questions_pb2.GetQuestionResponse:  # noqa: N802 - the proto's name
        """One that is open."""
        return questions_pb2.GetQuestionResponse(question=questions_pb2.Question(state="QUESTION_STATE_OPEN"))

    async def AnswerQuestion(self, _request: Any, _context: Any) -> questions_pb2.AnswerQuestionResponse:  # noqa: N802 - the proto's name
        """Takes what comes."""
        return questions_pb2.AnswerQuestionResponse()

    async def CreateRun(self, _request: Any, _context: Any) -> runs_pb2.CreateRunResponse:  # noqa: N802 - the proto's name
        """Takes as long as it is made to."""
        self.asked_for.set()
        await self.may_begin.wait()
        return runs_pb2.CreateRunResponse(run=runs_pb2.Run(run_id=RUN))

    async def ListRuns(self, _request: Any, _context: Any) -> runs_pb2.ListRunsResponse:  # noqa: N802 - the proto's name
        """Finds none, as for a label that another call has set."""
        return runs_pb2.ListRunsResponse()

    async def CancelRun(self, _request: Any, context: Any) -> runs_pb2.CancelRunResponse:  # noqa: N802 - the proto's name
        """Cancels the run, unless it has ended."""
        self.cancelled += 1
        self.over.set()
        if self.has_ended:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION)
        return runs_pb2.CancelRunResponse()

    async def WatchRun(self, _request: Any, _context: Any) -> AsyncIterator[runs_pb2.WatchRunResponse]:  # noqa: N802 - the proto's name
        """Tells the end."""
        self.followed.set()
        await self.over.wait()
        run = runs_pb2.Run(run_id=RUN, state=runs_pb2.RUN_STATE_CANCELLED)
        yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(sequence=9, run_ended=runs_pb2.RunEnded(run=run)))


@pytest.fixture
async def gateway() -> Platform:
    return Platform()  # type: ignore[abstract]


@pytest.fixture
async def http(gateway: Platform) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the endpoint, in this process."""
    server = grpc.aio.server()
    runs_pb2_grpc.add_RunServiceServicer_to_server(gateway, server)
    agents_pb2_grpc.add_AgentServiceServicer_to_server(gateway, server)
    questions_pb2_grpc.add_QuestionServiceServicer_to_server(gateway, server)
    target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    settings = HttpApiSettings(gateway_target=target, mcp_url=URL)
    async with grpc.aio.insecure_channel(target) as channel:
        streams = Streams(most=10, heartbeat_s=5, send_timeout_s=5)
        endpoint = McpEndpoint(Gateway(channel, call_timeout_s=5), channel, settings, streams)
        transport = httpx.ASGITransport(Starlette(routes=endpoint.routes()))
        async with endpoint.running(), httpx.AsyncClient(transport=transport, timeout=20) as client:
            yield client
    await server.stop(None)


async def post(http: httpx.AsyncClient, method: str, given: Any, *, subject: str = "27", **message: Any) -> int:
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {jwt.encode({'sub': subject}, 'k' * 32, algorithm='HS256')}",
        "mcp-protocol-version": "2025-11-25",
        "mcp-session-id": "s",
    }
    said = {"jsonrpc": "2.0", "method": method, "params": given, **message}
    return (await http.post(URL, json=said, headers=headers)).status_code


async def cancel(http: httpx.AsyncClient, **options: Any) -> int:
    return await post(http, "notifications/cancelled", {"requestId": 7}, **options)


@pytest.mark.parametrize("given", [ANSWER, CREATE], ids=["an answer", "a call made again"])
async def test_the_run_that_a_call_follows_is_cancelled_whoever_began_it(
    http: httpx.AsyncClient, gateway: Platform, given: Any
) -> None:
    call = asyncio.create_task(post(http, "tools/call", given, id=7))
    await gateway.followed.wait()
    assert (await cancel(http), gateway.cancelled, await call) == (202, 1, 200)


async def test_a_call_is_cancelled_before_its_run_is_there(http: httpx.AsyncClient, gateway: Platform) -> None:
    gateway.may_begin.clear()
    call = asyncio.create_task(post(http, "tools/call", CREATE, id=7))
    await gateway.asked_for.wait()
    cancelling = asyncio.create_task(cancel(http))
    asyncio.get_running_loop().call_later(0.2, gateway.may_begin.set)
    assert (await cancelling, gateway.cancelled, await call) == (202, 1, 200)


async def test_a_run_that_ends_meanwhile_is_as_it_is(http: httpx.AsyncClient, gateway: Platform) -> None:
    gateway.has_ended = True
    call = asyncio.create_task(post(http, "tools/call", CREATE, id=7))
    await gateway.followed.wait()
    assert (await cancel(http), await call) == (202, 200)


async def test_calls_of_others_and_calls_that_follow_are_not_cancelled(
    http: httpx.AsyncClient, gateway: Platform
) -> None:
    call = asyncio.create_task(post(http, "tools/call", CREATE, id=7))
    await gateway.followed.wait()
    assert (await cancel(http, subject="28"), gateway.cancelled) == (202, 0)
    gateway.over.set()
    assert await call == 200
    gateway.over.clear()
    gateway.followed.clear()
    following = asyncio.create_task(post(http, "tools/call", FOLLOW, id=7))
    await gateway.followed.wait()
    assert (await cancel(http), gateway.cancelled) == (202, 0)
    gateway.over.set()
    assert await following == 200


@pytest.mark.parametrize("wrong", [None, {}, [1], 2.5, True])
async def test_a_request_whose_id_is_none_is_refused_and_not_passed_over(
    http: httpx.AsyncClient, gateway: Platform, wrong: Any
) -> None:
    assert await post(http, "tools/call", CREATE, id=wrong) == 422
    assert not gateway.asked_for.is_set()
