"""Options and arguments of `signalbox run`, `agents` and `policies`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli import agents as commands
from services.cli.errors import CliError
from services.cli.invocation import Admin, As, AsJson, Roles, Timeout, fail, terminal
from services.cli.labels import NewLabels, parse_labels
from services.cli.terminal import run_command

agent_commands = typer.Typer()


@agent_commands.command()
def run(
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
    record: Annotated[bool, typer.Option("--record", help="Keep what its nodes hear, for `signalbox pin`.")] = False,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Run an agent on an input from a file, and show what comes of it.

    The exit status tells how it ended; `signalbox --help` lists them.
    """
    from services.cli import run as run_agent  # YAML and JSON schemas, which no other command needs

    try:
        if schema:
            terminal.raw(run_agent.schema_text(agent))
            return
        request = run_agent.Assignment(agent, input_file, thread, parse_labels(labels or ()), record).request()
    except CliError as error:
        raise fail(error) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(run_agent.run(connection, request, terminal, timeout_s=timeout, as_json=as_json), terminal)


@agent_commands.command()
def agents(context: typer.Context, subject: As = None, roles: Roles = None, as_json: AsJson = False) -> None:
    """List the agents that the platform offers."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.list_agents(connection, terminal, as_json=as_json), terminal)


@agent_commands.command()
def policies(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only those of this agent.")] = "",
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """List the limits that new runs get, and where each comes from; `explain` shows those of a run."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.list_policies(connection, terminal, agent=agent, as_json=as_json), terminal)
