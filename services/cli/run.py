"""`signalbox run`: any agent, from a file to what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import agents_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.following import follow
from services.cli.invocation import Admin, As, AsJson, Roles, Stream, Timeout, fail, terminal
from services.cli.labels import NewLabels, parse_labels
from services.cli.progress import progress_on
from services.cli.terminal import Terminal, run_command
from services.kit.wire.input_schema import agents_known, is_hosted, schema_of

commands = typer.Typer()


@commands.command("run")
def run_agent_command(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent; `signalbox agents` lists them.")],
    input_file: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Its input in JSON or YAML; `-` reads standard input."),
    ] = None,
    context_file: Annotated[
        Path | None,
        typer.Option("--context", metavar="FILE", help="Context of a hosted graph, in JSON or YAML."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of its input, and end.")] = False,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Conversation to start or continue.")] = "",
    labels: NewLabels = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record what its nodes ask and receive, for `signalbox pin`."),
    ] = False,
    as_json: AsJson = False,
    stream: Stream = None,
    timeout: Timeout = None,
) -> None:
    """Run an agent on an input from a file and show its output.

    The exit status tells how it ended; `signalbox --help` lists them.
    """
    try:
        if schema and agent in agents_known():
            terminal.raw(schema_text(agent))
            return
        assigned = Assignment(agent, input_file, thread, parse_labels(labels or ()), record, context_file)
        request = None if schema else assigned.request()
    except CliError as error:
        raise fail(error) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    if request is None:
        run_command(print_schema(connection, agent, terminal), terminal)
    else:
        shown = run(connection, request, terminal, timeout_s=timeout, as_json=as_json, stream=stream)
        run_command(shown, terminal)


@dataclass(frozen=True)
class Assignment:
    """What an agent is to do."""

    agent: str
    input_file: Path | None
    thread_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    record: bool = False
    context_file: Path | None = None

    def request(self) -> runs_pb2.CreateRunRequest:
        """The request that creates the run; repeatable, as it has an id of its own. Raises CliError."""
        if self.input_file is None:
            hint = f"name a file, or `-`; `signalbox run {self.agent} --schema` says what is in it"
            raise CliError("the run has no input", hint=hint, code=ExitCode.USAGE)
        from services.cli.input_file import read_input  # with YAML and JSON schemas, which no other command needs

        known = self.agent in agents_known()
        if known and self.context_file:
            raise CliError(f"{self.agent} takes no context", hint="leave out --context", code=ExitCode.USAGE)
        given = read_input(self.agent, self.input_file) if known else self._graph_input(self.input_file)
        return runs_pb2.CreateRunRequest(
            input=given,
            request_id=str(uuid4()),
            thread_id=self.thread_id,
            labels=self.labels,
            record=self.record,
        )

    def _graph_input(self, input_file: Path) -> runs_pb2.RunInput:
        from services.cli.input_file import graph_input, read_document  # as above

        beside = read_document(self.context_file) if self.context_file else None
        return graph_input(self.agent, read_document(input_file), str(input_file), context=beside)


async def print_schema(connection: Connection, agent: str, terminal: Terminal) -> ExitCode:
    """Prints the schema of a hosted graph's input, as the platform has it. Raises CliError."""
    async with open_gateway(connection) as gateway:
        schema = await hosted_schema(gateway, agent)
    terminal.raw(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return ExitCode.OK


async def hosted_schema(gateway: GatewayClient, agent: str) -> Mapping[str, object]:
    """The schema of a hosted graph's input. Raises CliError when the platform offers no such graph."""
    asked = agents_pb2.ListAgentsRequest(name=agent)
    for each in (await gateway.call(gateway.agents.ListAgents, asked)).agents:
        if each.name == agent and each.HasField("input_schema"):
            found: Mapping[str, object] = MessageToDict(each.input_schema)
            return found
    offered = (await gateway.call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())).agents
    names = [*agents_known(), *(each.name for each in offered if is_hosted(each))]
    raise CliError(
        f"there is no agent {agent!r} here; there are {', '.join(names)}",
        hint="`signalbox agents` lists what the platform offers; `signalbox up --agents FOLDER` brings graphs",
        code=ExitCode.USAGE,
    )


def schema_text(agent: str) -> str:
    """The schema of an agent's input as JSON. Raises CliError."""
    return json.dumps(schema_of(agent), indent=2, ensure_ascii=False) + "\n"


async def run(
    connection: Connection, request: runs_pb2.CreateRunRequest, terminal: Terminal, *, timeout_s: float | None,
    as_json: bool, stream: bool | None = None,
) -> ExitCode:  # fmt: skip
    """Runs it, shows the progress, then the output; the status tells how it ended."""
    async with open_gateway(connection) as gateway:
        if request.input.HasField("graph"):
            await hosted_schema(gateway, request.input.graph.agent)
        chunks, say = terminal.streaming(stream, as_json=as_json)
        with progress_on(terminal.err, silent=as_json, say=say) as progress:
            ended = await follow(gateway, request, progress, terminal, timeout_s=timeout_s, token_chunks=chunks)
    if as_json:
        terminal.json(ended)
    else:
        terminal.out.print(render.answer(ended))
    return exit_code_of(ended)
