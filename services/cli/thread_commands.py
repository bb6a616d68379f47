"""Options and arguments of `signalbox threads` and `signalbox thread`."""

from __future__ import annotations

from typing import Annotated

import typer
from signalbox.v1 import threads_pb2

from services.cli import threads as commands
from services.cli.invocation import As, AsJson, Roles, terminal
from services.cli.terminal import run_command

thread_commands = typer.Typer()
thread_command = typer.Typer(no_args_is_help=True, help="Show, fork or delete a conversation.")
thread_commands.add_typer(thread_command, name="thread")

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="Id of the conversation.")]
Checkpoint = Annotated[str, typer.Option(metavar="ID", help="Checkpoint of that run.")]


@thread_commands.command()
def threads(
    context: typer.Context,
    subject: As = None,
    roles: Roles = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List your conversations, newest first."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.list_threads(connection, terminal, limit=limit, as_json=as_json), terminal)


@thread_command.command()
def show(
    context: typer.Context,
    thread: ThreadId,
    subject: As = None,
    roles: Roles = None,
    run: Annotated[str, typer.Option(metavar="RUN", help="Show the state of this run.")] = "",
    checkpoint: Checkpoint = "",
    as_json: AsJson = False,
) -> None:
    """Show a conversation and its runs, or the state of one of them at a checkpoint."""
    if checkpoint and not run:
        raise typer.BadParameter("a checkpoint is one of a run: name it with --run")
    connection = context.obj.connection(subject, roles=roles)
    if run:
        shown = commands.show_state(connection, thread, run, checkpoint, terminal, as_json=as_json)
    else:
        shown = commands.show(connection, thread, terminal, as_json=as_json)
    run_command(shown, terminal)


@thread_command.command()
def fork(
    context: typer.Context,
    thread: ThreadId,
    run: Annotated[str, typer.Option(metavar="RUN", help="Latest run of the history to start with.")],
    subject: As = None,
    roles: Roles = None,
    checkpoint: Checkpoint = "",
    new: Annotated[str, typer.Option("--new", metavar="ID", help="Id of the new conversation.")] = "",
    as_json: AsJson = False,
) -> None:
    """Start a conversation with the history of another; with --checkpoint, go on from there in a new run."""
    request = threads_pb2.ForkThreadRequest(thread_id=thread, run_id=run, checkpoint_id=checkpoint, new_thread_id=new)
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.fork(connection, request, terminal, as_json=as_json), terminal)


@thread_command.command()
def delete(
    context: typer.Context,
    thread: ThreadId,
    subject: As = None,
    roles: Roles = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a conversation with all its runs; its decisions stay in the ledger without their content."""
    if not yes:
        typer.confirm(f"Delete {thread} and all its runs?", abort=True, err=True)
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.delete(connection, thread, terminal), terminal)
