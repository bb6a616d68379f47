"""`signalbox runs`, `show`, `explain` and `cancel`: runs that exist already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.explain import explanation
from services.cli.invocation import (
    Admin,
    As,
    AsJson,
    Roles,
    RunId,
    Since,
    Until,
    fail,
    terminal,
)
from services.cli.labels import WantedLabels, parse_labels
from services.cli.output_files import OutputFile
from services.cli.run_names import run_id_of
from services.cli.run_states import states_of
from services.cli.saved_filters import GIVEN, FilteringCommand, SavedFilters
from services.cli.story import story
from services.cli.terminal import Terminal, run_command
from services.kit.outcome import Outcome
from services.kit.text.words import parse_state, state_name

commands = typer.Typer()


@commands.command("runs", cls=FilteringCommand)
def runs_command(
    context: typer.Context,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Only runs of this agent.")] = "",
    state: Annotated[str, typer.Option(metavar="STATE", help="Only runs in this state, such as failed.")] = "",
    outcome: Annotated[str, typer.Option(metavar="OUTCOME", help="Only runs with this outcome, such as blocked.")] = "",
    thread: Annotated[str, typer.Option(metavar="ID", help="Only runs of this conversation.")] = "",
    since: Since = None,
    until: Until = None,
    caller: Annotated[str, typer.Option(metavar="USER", help="Only runs of this caller. For operators.")] = "",
    labels: WantedLabels = None,
    text: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help="Only runs whose title or labels have words that begin so: dev finds Devices."
        ),
    ] = "",
    _filter_name: Annotated[
        str, typer.Option("--filter", metavar="NAME", help="Use the filter that --save kept under this name.")
    ] = "",
    save: Annotated[
        str,
        typer.Option(metavar="NAME", help="Keep the options above under this name; without any, forget that name."),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    try:
        wanted = parse_labels(labels or ())
        if save:
            saved, given = SavedFilters(), context.meta[GIVEN]
            saved.save(save, given)
            told = f"kept as {save} in {saved.path}" if given else f"no filter is called {save} any more"
            terminal.err.print(Text(told))
    except CliError as error:
        raise fail(error) from error
    request = runs_pb2.ListRunsRequest(
        agent=agent, thread_id=thread, subject=caller, labels=wanted, text=text, since_time=since, until_time=until
    )
    if state or outcome:
        try:
            if state:
                request.state = parse_state(state)
            if outcome:
                request.outcome = Outcome.parse(outcome).proto
        except ValueError as error:
            raise fail(CliError(str(error), hint="name one of these", code=ExitCode.USAGE)) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    run_command(list_runs(connection, request, terminal, limit=limit, as_json=as_json), terminal)


@commands.command("show")
def show_command(
    context: typer.Context, run: RunId, subject: As = None, roles: Roles = None, as_json: AsJson = False
) -> None:
    """Show a run; the exit status tells how it ended."""
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    run_command(show(connection, run, terminal, as_json=as_json), terminal)


@commands.command("explain")
def explain_command(
    context: typer.Context,
    run: RunId,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write it to this file as an HTML page.")
    ] = None,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Show why a run took its route: its decisions as a tree, with the numbers behind each."""
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    run_command(explain(connection, run, terminal, html=html), terminal)


@commands.command("cancel")
def cancel_command(context: typer.Context, run: RunId, subject: As = None, roles: Roles = None) -> None:
    """Stop a run; what it has under way is broken off, effects excepted."""
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    run_command(cancel(connection, run, terminal), terminal)


async def list_runs(
    connection: Connection, request: runs_pb2.ListRunsRequest, terminal: Terminal, *, limit: int, as_json: bool
) -> ExitCode:
    """Shows the newest runs."""
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
    """Shows one run; the status tells how it ended."""
    async with open_gateway(connection) as gateway:
        run = await gateway.get(run_id)
        told = None if as_json else await gateway.explanation(run_id)
    if told is None:
        terminal.json(run)
    else:
        terminal.out.print(render.run_details(run, told.story.costs if told.story else None))
    return exit_code_of(run)


async def explain(connection: Connection, run_id: str, terminal: Terminal, *, html: Path | None) -> ExitCode:
    """Shows why a run went where it went, or writes it to a page."""
    output = OutputFile(html) if html else None
    if output:
        output.check()
        output.remove_older()
    async with open_gateway(connection) as gateway:
        if output:
            page = await explanation_page(gateway, run_id)
            output.write_text(page)
            terminal.out.print(Text(f"{html} shows why {run_id} took its route"))
            return ExitCode.OK
        run = await gateway.get(run_id)
        steps = await gateway.steps(run)
        explained = await gateway.explanation(run_id)
    terminal.out.print(explanation(run, steps, explained.told))
    if explained.story:
        terminal.out.print(story(explained.story))
    return ExitCode.OK


async def explanation_page(gateway: GatewayClient, run_id: str) -> str:
    """Returns the page that explains a run. Raises CliError where the platform is too old to tell it."""
    explained = await gateway.explained(run_id)
    if explained is None:
        raise CliError(
            "this platform's release does not tell enough of a run for a page",
            hint=f"`signalbox explain {run_id}` shows what it tells",
            code=ExitCode.REFUSED,
        )
    from services.console.explanation_page.page import render_page  # the templates, which nothing else here needs

    states = await states_of(gateway, run_id, [each.checkpoint_id for each in explained.decisions])
    return render_page(replace(explained, states=states))


async def cancel(connection: Connection, run_id: str, terminal: Terminal) -> ExitCode:
    """Asks a run to stop."""
    async with open_gateway(connection) as gateway:
        run = await gateway.cancel(run_id)
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        terminal.out.print(Text(f"{run.run_id} is cancelled"))
    else:
        terminal.out.print(Text(f"{run.run_id} is {state_name(run.state)} and stops"))
    return ExitCode.OK
