"""`signalbox runs`, `show`, `explain`, `decisions`, `cancel` and `resume`: runs that exist already."""

from __future__ import annotations

from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.console import Terminal
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.explain import explanation
from services.cli.progress import progress_on
from services.cli.words import state_name


async def list_runs(
    connection: Connection, request: runs_pb2.ListRunsRequest, terminal: Terminal, *, limit: int, as_json: bool
) -> ExitCode:
    """Show the newest runs."""
    async with open_gateway(connection) as gateway:
        runs = await gateway.list_runs(request, limit=limit)
    if as_json:
        terminal.json_list(list(runs))
    elif runs:
        terminal.out.print(render.run_list(runs))
    else:
        terminal.err.print(Text("no runs yet"))
    return ExitCode.OK


async def show(connection: Connection, run_id: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Show one run; the status tells how it ended."""
    async with open_gateway(connection) as gateway:
        run = await gateway.get(run_id)
    if as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.run_details(run))
    return exit_code_of(run)


async def explain(connection: Connection, run_id: str, terminal: Terminal) -> ExitCode:
    """Show why a run went where it went."""
    async with open_gateway(connection) as gateway:
        run = await gateway.get(run_id)
        steps = await gateway.steps(run)
    terminal.out.print(explanation(run, steps))
    return ExitCode.OK


async def list_decisions(connection: Connection, run_id: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Show the routing decisions of a run."""
    async with open_gateway(connection) as gateway:
        decisions = await gateway.decisions(run_id)
    if as_json:
        terminal.json_list(list(decisions))
    else:
        terminal.out.print(render.decision_list(decisions))
    return ExitCode.OK


async def cancel(connection: Connection, run_id: str, terminal: Terminal) -> ExitCode:
    """Ask a run to stop."""
    async with open_gateway(connection) as gateway:
        run = await gateway.cancel(run_id)
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        terminal.out.print(Text(f"{run.run_id} is cancelled"))
    else:
        terminal.out.print(Text(f"{run.run_id} is {state_name(run.state)} and stops at its next step"))
    return ExitCode.OK


async def resume(
    connection: Connection, run_id: str, answer: str, terminal: Terminal, *, timeout_s: float | None
) -> ExitCode:
    """Answer the question of a run, then follow it to its end."""
    async with open_gateway(connection) as gateway:
        run = await gateway.get(run_id)
        if not run.HasField("input_request"):
            raise CliError(
                f"{run_id} asks nothing: it is {state_name(run.state)}",
                hint=f"`signalbox show {run_id}` tells more",
                code=ExitCode.REFUSED,
            )
        await gateway.resume(run_id, run.input_request.input_request_id, answer)
        with progress_on(terminal.err) as progress:
            async for event in gateway.watch(run_id, 0, timeout_s=timeout_s):
                progress.event(event)
        run = await gateway.get(run_id)
    terminal.out.print(render.answer(run))
    return exit_code_of(run)
