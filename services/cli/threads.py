"""`signalbox threads` and `signalbox thread`: conversations, read back, forked and deleted."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.json import JSON
from rich.text import Text
from signalbox.v1 import threads_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, terminal
from services.cli.listing import Listing
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, run_command
from services.kit.text.printing import printable
from services.kit.text.words import moment, several, struct_json

commands = typer.Typer()
thread_command = typer.Typer(no_args_is_help=True, help="Show, fork or delete a conversation.")
commands.add_typer(thread_command, name="thread")

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="Id of the conversation.")]
Checkpoint = Annotated[str, typer.Option(metavar="ID", help="Checkpoint of that run.")]


@commands.command("threads")
def threads_command(
    context: typer.Context,
    subject: As = None,
    roles: Roles = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List your conversations, newest first."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(list_threads(connection, terminal, limit=limit, as_json=as_json), terminal)


@thread_command.command("show")
def show_command(
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
    run = run_id_of(connection, run, terminal) if run else ""
    if run:
        shown = show_state(connection, thread, run, checkpoint, terminal, as_json=as_json)
    else:
        shown = show(connection, thread, terminal, as_json=as_json)
    run_command(shown, terminal)


@thread_command.command("fork")
def fork_command(
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
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    request = threads_pb2.ForkThreadRequest(thread_id=thread, run_id=run, checkpoint_id=checkpoint, new_thread_id=new)
    run_command(fork(connection, request, terminal, as_json=as_json), terminal)


@thread_command.command("delete")
def delete_command(
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
    run_command(delete(connection, thread, terminal), terminal)


async def list_threads(connection: Connection, terminal: Terminal, *, limit: int, as_json: bool) -> ExitCode:
    """Shows the newest threads."""
    async with open_gateway(connection) as gateway:
        threads = await gateway.listed(
            gateway.threads.ListThreads, threads_pb2.ListThreadsRequest(), "threads", limit=limit
        )
    if as_json:
        terminal.json_list(list(threads))
    elif threads:
        terminal.out.print(thread_list(threads))
    else:
        terminal.err.print(Text("no threads yet"))
    return ExitCode.OK


async def show(connection: Connection, thread_id: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Shows a thread and its runs."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.GetThreadRequest(thread_id=thread_id)
        found = await gateway.call(gateway.threads.GetThread, request)
    if as_json:
        terminal.json(found)
    else:
        terminal.out.print(Group(thread_list([found.thread]), Text(), render.run_list(found.runs)))
    return ExitCode.OK


async def show_state(
    connection: Connection, thread_id: str, run_id: str, checkpoint_id: str, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Shows the state of a run of a thread at a checkpoint, and the checkpoints there are."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.GetThreadStateRequest(thread_id=thread_id, run_id=run_id, checkpoint_id=checkpoint_id)
        found = await gateway.call(gateway.threads.GetThreadState, request)
    if as_json:
        terminal.json(found)
    else:
        terminal.out.print(state(found))
    return ExitCode.OK


async def fork(
    connection: Connection, request: threads_pb2.ForkThreadRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Makes a thread of another's history."""
    async with open_gateway(connection) as gateway:
        made = await gateway.call(gateway.threads.ForkThread, request)
    if as_json:
        terminal.json(made)
        return ExitCode.OK
    terminal.out.print(
        Text(f"thread {printable(made.thread.thread_id)} starts with {several(made.thread.run_count, 'run')}")
    )
    if made.HasField("run"):
        terminal.out.print(Text(f"run {printable(made.run.run_id)} continues from the checkpoint"))
    return ExitCode.OK


async def delete(connection: Connection, thread_id: str, terminal: Terminal) -> ExitCode:
    """Deletes a thread."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.DeleteThreadRequest(thread_id=thread_id)
        gone = await gateway.call(gateway.threads.DeleteThread, request)
    what = f"{several(gone.run_count, 'run')} deleted, {several(gone.decision_count, 'decision')} blanked in the ledger"
    terminal.out.print(Text(f"{printable(thread_id)} is deleted: {what}"))
    return ExitCode.OK


def thread_list(threads: list[threads_pb2.Thread]) -> Listing:
    """Threads."""
    shown = Listing("thread", "runs", "active run", "latest run", "created", right=("runs",))
    for thread in threads:
        shown.add(
            thread.thread_id, str(thread.run_count), thread.active_run_id,
            moment(thread.latest_run_time), moment(thread.create_time),
        )  # fmt: skip
    return shown


def state(found: threads_pb2.GetThreadStateResponse | threads_pb2.GetRunStateResponse) -> RenderableType:
    """A run's state at a checkpoint, behind the checkpoints that it has."""
    table = Listing("", "step", "next", "checkpoint", "written", right=("step",))
    shown = found.state.checkpoint
    for checkpoint in found.checkpoints:
        mark = "→" if checkpoint == shown else ""
        following = ", ".join(checkpoint.next_nodes) or "the end"
        table.add(mark, str(checkpoint.step), following, checkpoint.checkpoint_id, moment(checkpoint.create_time))
    following = ", ".join(printable(node) for node in found.state.next_nodes) or "the end"
    return Group(table, Text(f"\nnext: {following}\n"), JSON(struct_json(found.state.values)))
