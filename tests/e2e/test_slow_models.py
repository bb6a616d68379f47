"""A model that takes its time: a run gets its answer, whatever time its caller gave, and also when that one leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import grpc
import pytest
from signalbox.v1 import runs_pb2

from services.cli import client
from services.cli.client import Connection, GatewayClient
from tests.fixtures.client import RunClient, given_up, question
from tests.fixtures.script import Script, query
from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.fixtures.stack import AGENT_MODEL, Platform

GIVEN_S = 8.0
SLOW_S = GIVEN_S + 4
COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
ROUTE = ["screen_question: allowed -> agent", "agent: tool_calls -> tools", "tools: query_executed -> format_answer"]


def slowly(request: ModelRequest) -> Reply:
    """The first call takes its time, and asks for a query; a second one would be told that there is none."""
    if request.tool_messages:
        return Reply.http_error(500, "asked once more")
    return replace(query(COUNT), delay_s=SLOW_S)


async def created_by_the_command(signalbox: Platform, channel: grpc.aio.Channel) -> str:
    """The command's own client, with a deadline that it gives every call."""
    connection = Connection(signalbox.stack.gateway_address, signalbox.stack.token("27"))
    return (await GatewayClient(channel, connection).create(question(QUESTION))).run_id


async def created_within(caller: RunClient, timeout_s: float) -> str:
    """A caller that gives a call little time, and makes it again until it is in time."""
    request = question(QUESTION, request_id=str(uuid4()))
    while True:
        try:
            response = await caller.stub.CreateRun(request, metadata=caller.metadata, timeout=timeout_s)
            return str(response.run.run_id)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED and not given_up(error):
                raise


async def watched_within(caller: RunClient, timeout_s: float) -> str:
    """A caller that watches, and whose time is up before anything has happened."""
    request = runs_pb2.ExecuteRunRequest(create=question(QUESTION, request_id=str(uuid4())))
    run_id = ""
    while not run_id:
        try:
            async for response in caller.stub.ExecuteRun(request, metadata=caller.metadata, timeout=timeout_s):
                run_id = response.event.run_id
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED and not given_up(error):
                raise
    return run_id


async def left(caller: RunClient) -> str:
    """A caller that goes away as soon as the run has begun."""
    request = runs_pb2.ExecuteRunRequest(create=question(QUESTION))
    call = caller.stub.ExecuteRun(request, metadata=caller.metadata)
    first: Any = await call.read()
    call.cancel()
    return str(first.event.run_id)


async def test_a_call_of_a_model_outlasts_every_caller(
    signalbox: Platform, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CALL_TIMEOUT_S", GIVEN_S)
    script.model.respond(AGENT_MODEL, slowly)
    caller = signalbox.caller("27")
    async with grpc.aio.insecure_channel(signalbox.stack.gateway_address) as channel:
        run_ids = await asyncio.gather(
            created_by_the_command(signalbox, channel),
            created_within(caller, 1),
            created_within(caller, 0.3),
            watched_within(caller, 1),
            left(caller),
        )
    for run_id in run_ids:
        asked = await caller.wait(run_id)
        assert (asked.state, asked.run.error) == ("SUCCEEDED", "")
        assert asked.route[:3] == ROUTE
    assert len(script.agent_requests) == len(run_ids)
