"""Options and arguments of `signalbox edit-graph` and `undo`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli import graph_edits as commands
from services.cli.invocation import As, AsJson, Roles, RunId, Timeout, terminal
from services.cli.terminal import run_command

graph_commands = typer.Typer()
Preview = Annotated[bool, typer.Option("--preview", help="Only show what would be changed.")]


@graph_commands.command("edit-graph")
def edit_graph(
    context: typer.Context,
    goal: Annotated[str, typer.Argument(help="What to change or to find, in natural language.")],
    preview: Preview = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Change or query the graph; a run that asks something is answered with `signalbox resume`."""
    connection = context.obj.connection(subject, roles=roles, must_name=True)
    request = commands.edit_request(goal, preview=preview)
    run_command(commands.edit_graph(connection, request, terminal, as_json=as_json, timeout_s=timeout), terminal)


@graph_commands.command()
def undo(
    context: typer.Context,
    run: RunId,
    preview: Preview = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Take back what a run has changed in the graph, if nothing has changed since."""
    connection = context.obj.connection(subject, roles=roles, must_name=True)
    request = commands.edit_request(undo_run_id=run, preview=preview)
    run_command(commands.edit_graph(connection, request, terminal, as_json=as_json, timeout_s=timeout), terminal)
