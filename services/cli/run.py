"""`signalbox run`: any agent, from a file to what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from signalbox.v1 import runs_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.following import follow
from services.cli.input_schema import schema_of
from services.cli.invocation import Admin, As, AsJson, Roles, Timeout, fail, terminal
from services.cli.labels import NewLabels, parse_labels
from services.cli.progress import progress_on
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()


@commands.command("run")
def run_agent_command(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Which one; `signalbox agents` lists them.")],
    input_file: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Its input in JSON or YAML; `-` reads standard input."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of its input, and end.")] = False,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Conversation to start or continue.")] = "",
    labels: NewLabels = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record what its nodes receive, for `signalbox pin`.")
    ] = False,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Run an agent on an input from a file and show its output.

    The exit status tells how it ended; `signalbox --help` lists them.
    """
    try:
        if schema:
            terminal.raw(schema_text(agent))
            return
        request = Assignment(agent, input_file, thread, parse_labels(labels or ()), record).request()
    except CliError as error:
        raise fail(error) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(run(connection, request, terminal, timeout_s=timeout, as_json=as_json), terminal)


@dataclass(frozen=True)
class Assignment:
    """What an agent is to do."""

    agent: str
    input_file: Path | None
    thread_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    record: bool = False

    def request(self) -> runs_pb2.CreateRunRequest:
        """The request that creates the run; repeatable, as it has an id of its own. Raises CliError."""
        if self.input_file is None:
            hint = f"name a file, or `-`; `signalbox run {self.agent} --schema` says what is in it"
            raise CliError("the run has no input", hint=hint, code=ExitCode.USAGE)
        from services.cli.input_file import read_input  # YAML and JSON schemas, which no other command needs

        given = read_input(self.agent, self.input_file)
        return runs_pb2.CreateRunRequest(
            input=given,
            request_id=str(uuid4()),
            thread_id=self.thread_id,
            labels=self.labels,
            record=self.record,
        )


def schema_text(agent: str) -> str:
    """The schema of an agent's input as JSON. Raises CliError."""
    return json.dumps(schema_of(agent), indent=2, ensure_ascii=False) + "\n"


async def run(
    connection: Connection, request: runs_pb2.CreateRunRequest, terminal: Terminal, *, timeout_s: float | None,
    as_json: bool,
) -> ExitCode:  # fmt: skip
    """Runs it, shows the progress, then the output; the status tells how it ended."""
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err, silent=as_json) as progress:
            ended = await follow(gateway, request, progress, terminal, timeout_s=timeout_s)
    if as_json:
        terminal.json(ended)
    else:
        terminal.out.print(render.answer(ended))
    return exit_code_of(ended)
