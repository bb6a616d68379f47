"""`signalbox state` and `signalbox fork`: a run's state after each of its steps, and runs that go on from one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from google.protobuf import struct_pb2
from rich.text import Text
from signalbox.v1 import threads_pb2

from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, RunId, terminal
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, run_command
from services.cli.threads import state
from services.kit.text.printing import printable

commands = typer.Typer()

# What a page of a run has of its steps: each again has the messages of those before it.
MOST_STATES, MOST_STATE_BYTES = 100, 2 * 1024 * 1024


@commands.command("state")
def state_command(
    context: typer.Context,
    run: RunId,
    step: Annotated[
        int | None, typer.Option(min=-1, metavar="N", help="State after this step; without it, after the last.")
    ] = None,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of one of your runs after a step, and the steps whose state is still there."""
    connection = context.obj.connection(subject, roles=roles)
    request = threads_pb2.GetRunStateRequest(run_id=run_id_of(connection, run, terminal), step=step)
    run_command(show_state(connection, request, terminal, as_json=as_json), terminal)


@commands.command("fork")
def fork_command(
    context: typer.Context,
    run: RunId,
    step: Annotated[
        int, typer.Option(min=-1, metavar="N", help="The step to go on from; `signalbox state` lists them.")
    ],
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Fields of the state to change first, in JSON or YAML; `-` reads standard input."
        ),
    ] = None,
    as_node: Annotated[str, typer.Option(metavar="NODE", help="Change them as if this node had returned them.")] = "",
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Start a run of a hosted graph from a step of an earlier one. What its nodes do after it happens again."""
    connection = context.obj.connection(subject, roles=roles)
    request = threads_pb2.ForkRunRequest(run_id=run_id_of(connection, run, terminal), step=step, as_node=as_node)
    if update is not None:
        request.update.CopyFrom(_struct(update))
    run_command(fork(connection, request, terminal, as_json=as_json), terminal)


async def show_state(
    connection: Connection, request: threads_pb2.GetRunStateRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Shows the state of a run after a step."""
    async with open_gateway(connection) as gateway:
        found = await gateway.call(gateway.threads.GetRunState, request)
    if as_json:
        terminal.json(found)
    else:
        terminal.out.print(state(found))
    return ExitCode.OK


async def states_of(
    gateway: GatewayClient, run_id: str, checkpoints: Sequence[str]
) -> dict[str, threads_pb2.ThreadState]:
    """Returns what steps left, by the ids of their checkpoints: the newest that a page has room for.

    Raises CliError where nobody answers.
    """
    states: dict[str, threads_pb2.ThreadState] = {}
    room = MOST_STATE_BYTES
    try:
        found = await gateway.call(gateway.threads.GetRunState, threads_pb2.GetRunStateRequest(run_id=run_id))
        steps = {each.checkpoint_id: each.step for each in found.checkpoints}
        kept = [each for each in dict.fromkeys(reversed(checkpoints)) if each in steps]
        for checkpoint in kept[:MOST_STATES]:
            asked = threads_pb2.GetRunStateRequest(run_id=run_id, step=steps[checkpoint], without_checkpoints=True)
            state_ = (await gateway.call(gateway.threads.GetRunState, asked)).state
            room -= state_.ByteSize()
            if room < 0:
                break
            states[checkpoint] = state_
    except CliError as error:
        # Of another's run, of one whose state has gone, at a platform that tells none: the page does without.
        if error.code is not ExitCode.REFUSED:
            raise
    return states


async def fork(
    connection: Connection, request: threads_pb2.ForkRunRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Creates a run that goes on from a step of another."""
    request.request_id = str(uuid4())
    async with open_gateway(connection) as gateway:
        made = await gateway.call(gateway.threads.ForkRun, request)
    if as_json:
        terminal.json(made)
    else:
        run_id = printable(made.run.run_id)
        terminal.out.print(Text(f"run {run_id} goes on from step {request.step} of {request.run_id}"))
        terminal.err.print(Text(f"`signalbox show {run_id}` says how it ends"))
    return ExitCode.OK


def _struct(path: Path) -> struct_pb2.Struct:
    from services.cli.input_file import read_document, struct_of  # with YAML and JSON schemas, as in `run`

    return struct_of(read_document(path), str(path))
