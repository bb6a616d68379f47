"""`signalbox mcp`: agents as tools of an MCP server on standard input and output, for the caller of the command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import agents_pb2, hosted_pb2, runs_pb2

from services.cli import explain, render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, Roles, terminal
from services.cli.questions import answer_question
from services.cli.terminal import run_command
from services.console.input_schema import agents_known, is_hosted, schema_of
from services.kit.wire.event_kinds import RUN_ENDED

if TYPE_CHECKING:
    import mcp.types as mcp_types

commands = typer.Typer()
EXPLAIN: Final = "explain_run"
ANSWER: Final = "answer_run"
LONGEST_RESULT: Final = 200_000
_RUN_ID: Final = {"type": "string", "description": "Id of the run, as the tool that began it said."}


@commands.command("mcp")
def mcp_command(
    context: typer.Context,
    agents: Annotated[
        list[str] | None, typer.Option("--agent", metavar="AGENT", help="Offer only this one; repeatable.")
    ] = None,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
) -> None:
    """Offer agents as tools to an MCP client, on standard input and output, until the client ends.

    A tool an agent, one that answers what a run asks, and one that explains a run. Each call is a run of this caller.
    """
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(serve(connection, frozenset(agents or ())), terminal)


async def serve(connection: Connection, chosen: frozenset[str]) -> ExitCode:
    """Serves until standard input ends. Raises CliError."""
    from mcp.server.lowlevel import Server  # with what it imports, which no other command needs
    from mcp.server.stdio import stdio_server

    async with AsyncExitStack() as stack:
        tools = AgentTools(await stack.enter_async_context(open_gateway(connection)), chosen)
        await tools.listed()  # what is wrong with the connection is said before anybody waits for an answer
        server: Server[Any] = Server(
            "signalbox",
            instructions="Agents whose every routing decision is kept; explain_run tells why a run went its way.",
            on_list_tools=tools.on_list,
            on_call_tool=tools.on_call,
        )
        read, write = await stack.enter_async_context(stdio_server())
        await server.run(read, write, server.create_initialization_options())
    return ExitCode.OK


class AgentTools:
    """The tools that a client is offered."""

    def __init__(self, gateway: GatewayClient, chosen: frozenset[str]) -> None:
        self._gateway = gateway
        self._chosen = chosen

    async def listed(self) -> list[mcp_types.Tool]:
        """Returns the tools. Raises CliError."""
        from mcp.types import Tool, ToolAnnotations

        agents = (await self._gateway.call(self._gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())).agents
        names = [agent.name for agent in agents if not self._chosen or agent.name in self._chosen]
        if unknown := self._chosen - set(names):
            told = f"there is no agent {', '.join(sorted(unknown))}"
            raise CliError(told, hint="`signalbox agents` lists them", code=ExitCode.USAGE)
        tools = [await self._tool_of(agent) for agent in agents if agent.name in names]
        answer = {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "description": "One of the options where there are any; ID=JSON for each of several interrupts.",
        }
        reads = ToolAnnotations(read_only_hint=True)
        return [
            *tools,
            Tool(
                name=ANSWER,
                description="Answers what a run asks, and goes on with it to its end or its next question.",
                input_schema=_object(run_id=_RUN_ID, answer=answer),
            ),
            Tool(
                name=EXPLAIN,
                description="Tells which node of a run came next, by which rule, and on which numbers.",
                input_schema=_object(run_id=_RUN_ID),
                annotations=reads,
            ),
        ]

    async def on_list(self, _context: Any, _parameters: Any) -> mcp_types.ListToolsResult:
        """Answers a client that asks which tools there are."""
        from mcp import MCPError
        from mcp.types import INTERNAL_ERROR, ListToolsResult

        try:
            return ListToolsResult(tools=await self.listed())
        except CliError as error:
            raise MCPError(INTERNAL_ERROR, error.message) from error

    async def on_call(self, _context: Any, asked: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        """Answers a call; what fails is told as the tool's failure."""
        arguments = asked.arguments or {}
        try:
            return _result(await self._called(asked.name, arguments))
        except CliError as error:
            return _failed(error.message)

    async def _called(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | str:
        if name == EXPLAIN:
            return await self._explained(_text(arguments, "run_id"))
        if name == ANSWER:
            return await self._answered(_text(arguments, "run_id"), _texts(arguments, "answer"))
        if self._chosen and name not in self._chosen:
            raise CliError(f"there is no tool {name!r}", code=ExitCode.USAGE)
        return await self._followed(self._gateway.execute(self._request(name, arguments), timeout_s=None))

    async def _tool_of(self, agent: agents_pb2.Agent) -> mcp_types.Tool:
        from mcp.types import Tool

        schema: dict[str, Any] = {"type": "object"}
        if not is_hosted(agent):
            schema = schema_of(agent.name) if agent.name in agents_known() else schema
        elif not agent.schemas_omitted:
            schema = MessageToDict(agent.input_schema) or schema
        else:
            asked = agents_pb2.ListAgentsRequest(name=agent.name)
            for each in (await self._gateway.call(self._gateway.agents.ListAgents, asked)).agents:
                schema = MessageToDict(each.input_schema) or schema
        return Tool(name=agent.name, description=agent.description, input_schema=schema)

    @staticmethod
    def _request(agent: str, arguments: Mapping[str, Any]) -> runs_pb2.CreateRunRequest:
        from services.cli.input_file import parse_input  # with YAML and JSON schemas

        if agent in agents_known():
            given = parse_input(agent, json.dumps(arguments), "what was given")
        else:
            given = runs_pb2.RunInput(graph=hosted_pb2.GraphInput(agent=agent))
            given.graph.input.update(arguments)
        return runs_pb2.CreateRunRequest(input=given, request_id=str(uuid4()))

    async def _followed(self, events: Any) -> dict[str, Any]:
        """Follows a run to its end, or to where it asks; one whose caller gives up is cancelled."""
        run_id = ""
        try:
            async for event in events:
                run_id = event.run_id
                if event.HasField(RUN_ENDED):
                    return _told(event.run_ended.run)
        except asyncio.CancelledError:
            if run_id:
                await asyncio.shield(self._gateway.cancel(run_id))
            raise
        if not run_id:
            raise CliError("the gateway ended the stream without a word", code=ExitCode.UNREACHABLE)
        return _told(await self._gateway.get(run_id))

    async def _answered(self, run_id: str, answers: list[str]) -> dict[str, Any]:
        await answer_question(self._gateway, run_id, answers)
        return await self._followed(self._gateway.watch(run_id, 0, timeout_s=None))

    async def _explained(self, run_id: str) -> str:
        run, told = await asyncio.gather(self._gateway.get(run_id), self._gateway.explanation(run_id))
        return render.to_text(explain.explanation(run, await self._gateway.steps(run), told.told))


def _told(run: runs_pb2.Run) -> dict[str, Any]:
    """Returns what a run came to, or what it asks."""
    said = MessageToDict(run, preserving_proto_field_name=True)
    names = ("run_id", "state", "outcome", "stop_reason", "error", "output", "input_request")
    return {name: said[name] for name in names if name in said}


def _result(found: dict[str, Any] | str) -> mcp_types.CallToolResult:
    from mcp.types import CallToolResult, TextContent

    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    if len(text) > LONGEST_RESULT:
        cut = (
            f"{text[:LONGEST_RESULT]}\n[cut: {len(text) - LONGEST_RESULT:,} characters more; `signalbox show` has all]"
        )
        return CallToolResult(content=[TextContent(text=cut)])
    structured = found if isinstance(found, dict) else None
    return CallToolResult(content=[TextContent(text=text)], structured_content=structured)


def _failed(message: str) -> mcp_types.CallToolResult:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _texts(arguments: Mapping[str, Any], name: str) -> list[str]:
    value = arguments.get(name)
    values = value if isinstance(value, list) else [value]
    texts = [each for each in values if isinstance(each, str) and each]
    if not values or len(texts) != len(values):
        raise CliError(f"{name} must be there, and a text", code=ExitCode.USAGE)
    return texts


def _text(arguments: Mapping[str, Any], name: str) -> str:
    return _texts(arguments, name)[0]
