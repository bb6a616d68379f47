"""MCP both ways on a whole platform: a graph calls a server's tools, and a client calls agents (docs/mcp.md)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from google.protobuf.json_format import MessageToDict
from mcp import Client, StdioServerParameters
from signalbox.v1 import questions_pb2, questions_pb2_grpc, runs_pb2
from starlette.responses import JSONResponse, Response

from services.local.settings import inherited_environment
from tests.e2e.test_answering import signalbox
from tests.e2e.test_hosted_graphs import asking
from tests.fixtures.client import CALL_TIMEOUT_S
from tests.fixtures.forked import TOOL_SERVERS, program
from tests.fixtures.mcp_server import Served, serving, serving_tickets
from tests.fixtures.stack import Platform, World, platform

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/fixtures/hosted_mcp"
SERVERS = {
    "tickets": {
        "tools": {
            "search": {},
            "create": {"effect": "writes", "key_argument": "request_id"},
            "add_note": {"effect": "writes"},
        }
    },
    "notes": {
        "environment": {"PYTHONPATH": str(ROOT)},
        "tools": {"search": {}},
    },
    "private": {"tools": {"search": {}}},
}


@dataclass
class Desk:
    """A platform, the server that its graph calls, and what the issuer of callers' tokens says."""

    platform: Platform
    tickets: Served
    issued: list[Response]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """A platform that offers a graph with the tools of three servers, accepted by the command."""
    folder = tmp_path_factory.mktemp("mcp")
    issued: list[Response] = []

    async def issue(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await issued[-1](scope, receive, send)

    async with serving_tickets() as tickets, serving(issue) as issuer:
        servers = json.loads(json.dumps(SERVERS))
        servers["tickets"]["url"] = servers["private"]["url"] = tickets.url
        servers["notes"]["command"] = list(program("tests.fixtures.mcp_server", TOOL_SERVERS))
        file = folder / "servers.yaml"
        file.write_text(yaml.safe_dump({"servers": servers}))
        env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER)}}

        async def mcp_tools(*options: str) -> tuple[int, str]:
            return await command("mcp-tools", str(file), *options)

        status, said = await mcp_tools()
        assert (status, "tickets.search: new, reads" in said, "notes.search: new, reads" in said) == (1, True, True), (
            said
        )
        assert (await mcp_tools("--accept"))[0] == 0
        assert (await mcp_tools())[0] == 0
        servers["private"]["token_exchange"] = {
            "url": f"{issuer}/token",
            "grant_url": "https://tickets.example.com/connect",
        }
        file.write_text(yaml.safe_dump({"servers": servers}))
        async with platform(harbour, service_env=env, mcp_servers=file) as running:
            yield Desk(running, tickets, issued)


async def command(*arguments: str) -> tuple[int, str]:
    """Runs the command where no platform is; returns its status and what it said."""
    process = await asyncio.create_subprocess_exec(
        *program("services.cli"), *arguments, env=inherited_environment(), cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def called(
    desk: Desk, tool: str, *, agent: str = "desk", subject: str = "27", **arguments: Any
) -> tuple[runs_pb2.Run, dict[str, Any]]:
    """A run that calls a tool, at its end or where it asks, and what it gave back."""
    client = desk.platform.caller(subject)
    run = await client.create(asking(agent, tool=tool, arguments=arguments))
    async for _ in client.watch(run.run_id):
        pass
    run = await client.get(run.run_id)
    return run, MessageToDict(run.output.graph.output)


async def test_a_graph_calls_tools_of_mcp_servers(desk: Desk, tmp_path: Path) -> None:
    for agent in ("desk", "blocking_desk"):
        run, output = await called(desk, "tickets_search", agent=agent, words="login")
        assert run.state == runs_pb2.RUN_STATE_SUCCEEDED, run.error
        # What a tool says is data: no instruction, and of nobody but that tool.
        assert (output["messages"][-1]["type"], output["messages"][-1]["content"]) == ("tool", "Fix login")
        assert output["offered"] == [
            "notes_search",
            "private_search",
            "tickets_add_note",
            "tickets_create",
            "tickets_search",
        ]
    assert (await called(desk, "notes_search", words="login"))[1]["messages"][-1]["content"] == "Fix login"
    run, output = await called(desk, "tickets_create", title="New")
    assert output["messages"][-1]["content"].startswith("TICKET-")
    run, output = await called(desk, "tickets_add_note", text="a note")
    assert "notes" in output["messages"][-1]["content"]
    # What may happen again is marked, and nothing else.
    status, said = await signalbox(desk.platform, tmp_path, ("27",), "explain", run.run_id)
    assert (status, "tickets_add_note" in said, "at least once" in said) == (0, True, True)
    run, _ = await called(desk, "tickets_search", words="login")
    assert "at least once" not in (await signalbox(desk.platform, tmp_path, ("27",), "explain", run.run_id))[1]


@pytest.mark.parametrize("service", ["runtime", "mcp_executor"])
@pytest.mark.parametrize("tool", ["tickets_create", "tickets_add_note"])
async def test_a_write_goes_on_when_who_makes_it_is_killed(desk: Desk, tmp_path: Path, service: str, tool: str) -> None:
    tickets, text = desk.tickets.tickets, f"slow {service} {tool}"
    tickets.held.clear()
    tickets.hold.clear()
    client = desk.platform.caller("27")
    arguments = {"title" if tool == "tickets_create" else "text": text}
    run = await client.create(asking("desk", tool=tool, arguments=arguments))
    await tickets.held.wait()
    killed = desk.platform.stack.service(service)
    await killed.kill()
    tickets.hold.set()
    await killed.start()
    async for _ in client.watch(run.run_id):
        pass
    run = await client.get(run.run_id)
    assert run.state == runs_pb2.RUN_STATE_SUCCEEDED, run.error
    status, said = await signalbox(desk.platform, tmp_path, ("27",), "explain", run.run_id)
    if tool == "tickets_create":  # by its key, whoever asks again
        assert (tickets.titles.count(text), status, "at least once" in said) == (1, 0, False)
    else:
        # What remembers it is the executor's process alone.
        assert (status, "at least once" in said) == (0, True)
        assert tickets.titles.count(text) == (1 if service == "runtime" else 2)


async def answered(desk: Desk, run: runs_pb2.Run, subject: str, text: str) -> runs_pb2.Run:
    """A run after the answer to its question, at its end or where it asks again."""
    client = desk.platform.caller(subject)
    request = questions_pb2.AnswerQuestionRequest(
        run_id=run.run_id, input_request_id=run.input_request.input_request_id, answer=text
    )
    stub = questions_pb2_grpc.QuestionServiceStub(desk.platform.channel)
    await stub.AnswerQuestion(request, metadata=client.metadata, timeout=CALL_TIMEOUT_S)
    async for _ in client.watch(run.run_id):
        pass
    return await client.get(run.run_id)


def asked_by(run: runs_pb2.Run) -> str:
    """What a run asks."""
    assert run.state == runs_pb2.RUN_STATE_AWAITING_INPUT, run.error
    payload = run.input_request.interrupts[0].payload
    return payload.string_value or MessageToDict(payload)["question"]


async def test_a_missing_grant_is_a_question(desk: Desk) -> None:
    refused = JSONResponse({"error": "consent_required"}, status_code=400)
    given = JSONResponse({"access_token": "theirs"})
    for subject, then, said in (("28", given, "Fix login"), ("29", refused, "consent_required")):
        desk.issued.append(refused)
        run, _ = await called(desk, "private_search", subject=subject, words="login")
        assert "https://tickets.example.com/connect" in asked_by(run)
        desk.issued.append(then)
        ended = await answered(desk, run, subject, "done")
        assert ended.state == runs_pb2.RUN_STATE_SUCCEEDED, ended.error
        assert said in MessageToDict(ended.output.graph.output)["messages"][-1]["content"]


async def test_an_answer_to_it_answers_no_question_of_the_graph(desk: Desk) -> None:
    desk.issued.append(JSONResponse({"error": "consent_required"}, status_code=400))
    run, _ = await called(desk, "private_search", agent="careful_desk", subject="30", words="login")
    assert "https://tickets.example.com/connect" in asked_by(run)
    desk.issued.append(JSONResponse({"access_token": "theirs"}))
    run = await answered(desk, run, "30", "yes")
    assert asked_by(run) == "Delete it?"
    run = await answered(desk, run, "30", "no")
    assert MessageToDict(run.output.graph.output)["messages"][-1]["content"] == "Fix login: no"


async def test_a_client_calls_agents_and_asks_why(desk: Desk, tmp_path: Path) -> None:
    env = {
        "SIGNALBOX_GATEWAY": desk.platform.stack.gateway_address,
        "SIGNALBOX_TOKEN": desk.platform.stack.token("27"),
        "SIGNALBOX_RUNTIME_DIR": str(tmp_path),
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "services.cli", "mcp", "--agent", "data_chat", "--agent", "desk"],
        env=env, cwd=ROOT,
    )  # fmt: skip
    async with Client(server, read_timeout_seconds=60) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"data_chat", "desk", "answer_run", "follow_run", "explain_run"}
        assert "question" in tools["data_chat"].input_schema["properties"]
        heard: list[tuple[float, str | None]] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            assert total is None
            heard.append((progress, message))

        question = {"question": "Count devices with temperature > 10"}
        answer = await client.call_tool("data_chat", question, progress_callback=hear)
        run = answer.structured_content
        assert (answer.is_error, run["state"], run["outcome"]) == (False, "RUN_STATE_SUCCEEDED", "OUTCOME_ANSWERED")
        why = await client.call_tool("explain_run", {"run_id": run["run_id"]})
        ways = [(each["router"], each["destination"]) for each in why.structured_content["decisions"]]
        assert ("data_chat.route_after_agent", "tools") in ways
        assert heard[0] == (0, f"run {run['run_id']}")
        assert any("data_chat.route_after_agent → tools" in (said or "") for _, said in heard)
        assert [number for number, _ in heard] == sorted({number for number, _ in heard})
        assert (await client.call_tool("follow_run", {"run_id": run["run_id"]})).structured_content == run
        deep: Any = "x"
        for _ in range(40):
            deep = [deep]
        for wrong in ({}, {"question": 3}, {"question": "x", "more": 1}, {"question": deep}):
            refused = await client.call_tool("data_chat", wrong)
            assert refused.is_error, wrong
        assert (await client.call_tool("explain_run", {"run_id": "0197a0c0-0000-7000-8000-000000000000"})).is_error
        desk.issued.append(JSONResponse({"error": "consent_required"}, status_code=400))
        asks = (
            await client.call_tool("desk", {"tool": "private_search", "arguments": {"words": "login"}})
        ).structured_content
        assert asks["state"] == "RUN_STATE_AWAITING_INPUT"
        ended = await client.call_tool("answer_run", {"run_id": asks["run_id"], "answer": "later"})
        assert ended.structured_content["state"] == "RUN_STATE_SUCCEEDED"
