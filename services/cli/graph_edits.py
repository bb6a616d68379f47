"""`signalbox edit-graph` and `undo`: goals for a property graph, and taking back what they changed."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

import typer
from signalbox.v1 import graph_editor_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.following import follow
from services.cli.invocation import As, AsJson, Roles, RunId, Timeout, terminal
from services.cli.progress import progress_on
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()
Preview = Annotated[bool, typer.Option("--preview", help="Only show what would be changed.")]


@commands.command("edit-graph")
def edit_graph_command(
    context: typer.Context,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What to change or to find, in natural language.")],
    preview: Preview = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Change or query the graph; if the run asks a question, answer it with `signalbox resume`."""
    if not goal.strip():
        raise typer.BadParameter("must not be blank", param_hint="GOAL")
    connection = context.obj.connection(subject, roles=roles, must_name=True)
    request = edit_request(goal, preview=preview)
    run_command(edit_graph(connection, request, terminal, as_json=as_json, timeout_s=timeout), terminal)


@commands.command("undo")
def undo_command(
    context: typer.Context,
    run: RunId,
    preview: Preview = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
    timeout: Timeout = None,
) -> None:
    """Undo what a run changed in the graph, unless it has changed since."""
    connection = context.obj.connection(subject, roles=roles, must_name=True)
    run = run_id_of(connection, run, terminal)
    request = edit_request(undo_run_id=run, preview=preview)
    run_command(edit_graph(connection, request, terminal, as_json=as_json, timeout_s=timeout), terminal)


def edit_request(goal: str = "", *, preview: bool = False, undo_run_id: str = "") -> runs_pb2.CreateRunRequest:
    """The request for a goal, or for an undo; repeatable, as it has an id of its own."""
    edit = graph_editor_pb2.GraphEditorInput(goal=goal, preview=preview, undo_run_id=undo_run_id)
    return runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph_editor=edit), request_id=str(uuid4()))


async def edit_graph(
    connection: Connection,
    request: runs_pb2.CreateRunRequest,
    terminal: Terminal,
    *,
    as_json: bool,
    timeout_s: float | None,
) -> ExitCode:
    """Asks for it, shows the progress, then the answer or the question that the run waits with."""
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err, silent=as_json) as progress:
            run = await follow(gateway, request, progress, terminal, timeout_s=timeout_s)
    if as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.answer(run))
    return exit_code_of(run)
