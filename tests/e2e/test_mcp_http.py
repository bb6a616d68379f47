"""Agents as tools of MCP over HTTP: clients of both eras of the protocol, two replicas, and whatever else comes in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from signalbox.v1 import runs_pb2

from tests.fixtures.hosted import FOLDER
from tests.fixtures.silent_proxy import SilentProxy
from tests.fixtures.stack import Platform, World, platform

URL = "https://agents.example.com/mcp"
ISSUER = "https://idp.example.com"
ORIGIN = "https://chat.example.com"
LONG = {"until": 12}
ERAS = ("legacy", "auto")
pytestmark = pytest.mark.timeout(300)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(harbour: World) -> AsyncIterator[Platform]:
    """A platform with two replicas of the HTTP API, which offer agents as tools."""
    env = {
        "runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER)},
        "http_api": {
            "SIGNALBOX_MCP_URL": URL,
            "SIGNALBOX_MCP_AUTHORIZATION_SERVERS": ISSUER,
            "SIGNALBOX_ALLOWED_ORIGINS": ORIGIN,
            "SIGNALBOX_MAX_REQUEST_BYTES": "20000",
        },
    }
    async with platform(harbour, service_env=env, http_replicas=2) as running:
        yield running


def address_of(running: Platform, replica: int = 0) -> str:
    return running.stack.http_apis[replica].ready.listen


@dataclass
class Heard:
    """What a client was told of progress, and an event once it knows the run."""

    told: list[tuple[float, str]] = field(default_factory=list)
    knows_run: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        self.told.append((progress, message or ""))
        self.knows_run.set()

    @property
    def run_id(self) -> str:
        return self.told[0][1].removeprefix("run ")


@asynccontextmanager
async def client_of(
    running: Platform, mode: Any = "auto", *, subject: str = "27", address: str = "", fill_in: Any = None
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {running.token(subject)}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"http://{address or address_of(running)}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=fill_in) as client:
            yield client


async def end_of(running: Platform, run_id: str) -> str:
    """How a run ends."""
    caller = running.caller("27")
    async for _ in caller.watch(run_id):
        pass
    return runs_pb2.RunState.Name((await caller.get(run_id)).state)


@pytest.mark.parametrize("mode", ERAS)
async def test_agents_are_tools_and_each_call_is_a_run_of_its_caller(served: Platform, mode: str) -> None:
    heard = Heard()
    async with client_of(served, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"data_chat", "slow_chain", "answer_run", "follow_run", "explain_run"} <= tools.keys()
        assert "question" in tools["data_chat"].input_schema["properties"]
        asked = {"question": "Count devices with temperature > 10"}
        answer = await client.call_tool("data_chat", asked, progress_callback=heard)
        run = answer.structured_content
        assert (answer.is_error, run["state"], run["run_id"]) == (False, "RUN_STATE_SUCCEEDED", heard.run_id)
        assert any("data_chat.route_after_agent → tools" in message for _, message in heard.told)
        why = (await client.call_tool("explain_run", {"run_id": heard.run_id})).structured_content
        assert "data_chat.route_after_agent" in {each["router"] for each in why["decisions"]}
        for wrong in ({}, {"question": 3}, {"question": "x", "more": 1}):
            assert (await client.call_tool("data_chat", wrong)).is_error, wrong
    async with client_of(served, mode, subject="28") as other:
        refused = await other.call_tool("explain_run", {"run_id": heard.run_id})
        assert (refused.is_error, "NOT_FOUND" in str(refused.content)) == (True, True)


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else "x"


async def test_a_question_ends_a_call_and_is_answered_by_another(served: Platform) -> None:
    async with client_of(served) as client:
        asks = (await client.call_tool("two_questions", {})).structured_content
        assert asks["state"] == "RUN_STATE_AWAITING_INPUT"
        ids = [each["interrupt_id"] for each in asks["input_request"]["interrupts"]]
        vague = await client.call_tool("answer_run", {"run_id": asks["run_id"], "answer": "yes"})
        assert vague.is_error
        given = {"run_id": asks["run_id"], "answer": dict.fromkeys(ids, "yes")}
        ended = (await client.call_tool("answer_run", given)).structured_content
        assert ended["state"] == "RUN_STATE_SUCCEEDED", ended


async def test_who_sits_at_a_client_with_forms_is_asked_in_the_call(served: Platform) -> None:
    asked: list[str] = []

    async def fill_in(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001 - the library's name
        fields = params.requested_schema["properties"]
        asked.extend(each["title"] for each in fields.values())
        return ElicitResult(action="accept", content=dict.fromkeys(fields, "yes"))

    async with client_of(served, fill_in=fill_in) as client:
        ended = (await client.call_tool("two_questions", {})).structured_content
    assert (ended["state"], sorted(asked)) == ("RUN_STATE_SUCCEEDED", ["Left?", "Right?"]), ended
    # Before 2026 that would take a connection that stays with one replica.
    async with client_of(served, "legacy", fill_in=fill_in) as client:
        assert (await client.call_tool("two_questions", {})).structured_content["state"] == "RUN_STATE_AWAITING_INPUT"


async def test_a_client_that_hangs_up_has_given_up_the_call(served: Platform) -> None:
    heard = Heard()
    async with client_of(served) as client:
        call = asyncio.create_task(client.call_tool("slow_chain", LONG, progress_callback=heard))
        await heard.knows_run.wait()
        call.cancel()
        assert await end_of(served, heard.run_id) == "RUN_STATE_CANCELLED"


async def test_before_2026_a_call_is_cancelled_by_a_message_to_any_replica(served: Platform) -> None:
    heard = Heard()
    async with SilentProxy(address_of(served)) as proxy, client_of(served, "legacy", address=proxy.address) as client:
        call = asyncio.create_task(client.call_tool("slow_chain", LONG, progress_callback=heard))
        await heard.knows_run.wait()
        # The call stays where it is; what comes now goes to the other one.
        proxy.upstream = address_of(served, 1)
        call.cancel()
        assert await end_of(served, heard.run_id) == "RUN_STATE_CANCELLED"


async def test_before_2026_a_stream_goes_on_at_another_replica_when_one_dies(served: Platform) -> None:
    heard = Heard()
    async with SilentProxy(address_of(served)) as proxy, client_of(served, "legacy", address=proxy.address) as client:
        call = asyncio.create_task(client.call_tool("slow_chain", LONG, progress_callback=heard))
        await heard.knows_run.wait()
        proxy.upstream = address_of(served, 1)
        await served.stack.http_apis[0].kill()
        try:
            answer = await call
        finally:
            await served.stack.http_apis[0].start()
    run = answer.structured_content
    assert (answer.is_error, run["state"], run["run_id"]) == (False, "RUN_STATE_SUCCEEDED", heard.run_id)
    numbers = [number for number, _ in heard.told]
    assert numbers == sorted(set(numbers))


async def test_a_call_that_is_made_again_is_the_same_run(served: Platform) -> None:
    heard, again = Heard(), Heard()
    once: Any = {"signalbox/request_id": "order-17"}
    async with client_of(served) as client, client_of(served, address=address_of(served, 1)) as other:
        call = asyncio.create_task(client.call_tool("slow_chain", LONG, meta=once, progress_callback=heard))
        await heard.knows_run.wait()
        await served.stack.http_apis[0].kill()
        try:
            with pytest.raises(
                Exception, match=r".*"
            ):  # what a client makes of a connection that breaks off is its own
                await call
            answer = await other.call_tool("slow_chain", LONG, meta=once, progress_callback=again)
        finally:
            await served.stack.http_apis[0].start()
        run = answer.structured_content
        assert (run["state"], run["run_id"], again.run_id) == ("RUN_STATE_SUCCEEDED", heard.run_id, heard.run_id)
        assert (await other.call_tool("follow_run", {"run_id": heard.run_id})).structured_content == run


async def post(running: Platform, message: Any, **headers: str) -> httpx.Response:
    given = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {running.token('27')}",
        "content-type": "application/json",
        **headers,
    }
    async with httpx.AsyncClient() as http:
        content = message if isinstance(message, bytes) else None
        return await http.post(
            f"http://{address_of(running)}/mcp",
            headers={name: value for name, value in given.items() if value},
            content=content,
            json=None if content is not None else message,
        )


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


async def test_who_has_no_token_is_told_where_there_are_some(served: Platform) -> None:
    described = f"{URL.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
    missing = await post(served, LIST, authorization="")
    assert (missing.status_code, missing.headers["www-authenticate"]) == (
        401,
        f'Bearer resource_metadata="{described}"',
    )
    wrong = await post(served, LIST, authorization="Bearer nobody's")
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (
        401,
        f'Bearer error="invalid_token", resource_metadata="{described}"',
    )
    async with httpx.AsyncClient() as http:
        told = (await http.get(f"http://{address_of(served)}/.well-known/oauth-protected-resource/mcp")).json()
    assert (told["resource"], told["authorization_servers"]) == (URL, [ISSUER])


async def test_what_no_client_of_mcp_sends_is_refused(served: Platform) -> None:
    statuses = {
        "another site": (await post(served, LIST, origin="https://evil.example.com")).status_code,
        "a site that may": (await post(served, LIST, origin=ORIGIN)).status_code,
        "its own": (await post(served, LIST, origin="https://agents.example.com")).status_code,
        "too much": (await post(served, {**LIST, "params": {"x": "x" * 30_000}})).status_code,
        "too deep": (await post(served, {**LIST, "params": {"x": nested(60)}})).status_code,
        "no JSON": (await post(served, b"{")).status_code,
        "a form": (await post(served, b"a=b", **{"content-type": "application/x-www-form-urlencoded"})).status_code,
        "a batch": (await post(served, [LIST])).status_code,
        "no version": (await post(served, LIST, **{"mcp-protocol-version": "1999-01-01"})).status_code,
    }
    assert statuses == {
        "another site": 403, "a site that may": 200, "its own": 200, "too much": 413, "too deep": 422, "no JSON": 400,
        "a form": 415, "a batch": 400, "no version": 400,
    }  # fmt: skip
    headers = {"authorization": f"Bearer {served.token('27')}", "last-event-id": "bm8="}
    async with httpx.AsyncClient(headers=headers, base_url=f"http://{address_of(served)}") as http:
        assert (await http.get("/mcp")).status_code == 422
        assert (await http.delete("/mcp")).status_code == 405
        http.headers.pop("last-event-id")
        assert (await http.get("/mcp")).status_code == 405


async def test_a_stream_of_another_callers_run_is_not_gone_on_with(served: Platform) -> None:
    call: Any = {**LIST, "method": "tools/call", "params": {"name": "data_chat", "arguments": {"question": "Devices?"}}}
    versioned = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "a"}
    lines = (await post(served, call, **versioned)).text.splitlines()
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    for subject, status in (("27", 200), ("28", 404)):
        headers = {"authorization": f"Bearer {served.token(subject)}", "last-event-id": ids[0]}
        async with httpx.AsyncClient(headers=headers) as http:
            response = await http.get(f"http://{address_of(served)}/mcp")
        assert (response.status_code, '"result"' in response.text) == (status, status == 200)


async def test_it_is_off_unless_wanted(harbour: World) -> None:
    async with platform(harbour, service_env={"http_api": {"SIGNALBOX_MCP_URL": ""}}, http_replicas=1) as running:
        assert (await post(running, LIST)).status_code == 404
