"""`signalbox runs`, `show`, `explain`, `decisions` and `cancel`: runs that exist already."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.explain import explanation
from services.cli.output_files import check_writable, remove_older, write_text
from services.cli.story import story
from services.cli.terminal import Terminal
from services.kit.text.words import state_name


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
    if as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.run_details(run))
    return exit_code_of(run)


async def explain(connection: Connection, run_id: str, terminal: Terminal, *, html: Path | None) -> ExitCode:
    """Shows why a run went where it went, or writes it to a page."""
    if html:
        check_writable(html)
        remove_older(html)
    async with open_gateway(connection) as gateway:
        if html:
            page = await explanation_page(gateway, run_id)
            write_text(html, page)
            terminal.out.print(Text(f"{html} shows why {run_id} went as it did"))
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

    return render_page(explained)


async def list_decisions(connection: Connection, run_id: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Shows the routing decisions of a run."""
    async with open_gateway(connection) as gateway:
        decisions = await gateway.decisions(run_id)
    if as_json:
        terminal.json_list(list(decisions))
    else:
        terminal.out.print(render.decision_list(decisions))
    return ExitCode.OK


async def search_decisions(
    connection: Connection,
    request: runs_pb2.ListDecisionsRequest,
    terminal: Terminal,
    *,
    limit: int,
    as_json: bool,
) -> ExitCode:
    """Shows the newest decisions that fit, of all runs that the caller may see."""
    async with open_gateway(connection) as gateway:
        decisions = await gateway.search_decisions(request, limit=limit)
    if as_json:
        terminal.json_list(decisions)
    elif decisions:
        terminal.out.print(render.found_decisions(decisions))
    else:
        terminal.err.print(Text("no decision that fits"))
    return ExitCode.OK


async def count_decisions(
    connection: Connection, request: runs_pb2.CountDecisionsRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Shows which of an agent's rules fire how often, and which never do."""
    async with open_gateway(connection) as gateway:
        counted = await gateway.count_decisions(request)
    if as_json:
        terminal.json(counted)
        return ExitCode.OK
    terminal.out.print(render.decision_counts(counted))
    if counted.is_partial:
        told = f"{counted.decision_count:,} decisions counted, among the newest; older ones were not looked at"
        terminal.err.print(Text(f"{told}, so that what never fired among these may have fired before"))
    return ExitCode.OK


async def cancel(connection: Connection, run_id: str, terminal: Terminal) -> ExitCode:
    """Asks a run to stop."""
    async with open_gateway(connection) as gateway:
        run = await gateway.cancel(run_id)
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        terminal.out.print(Text(f"{run.run_id} is cancelled"))
    else:
        terminal.out.print(Text(f"{run.run_id} is {state_name(run.state)} and stops at its next step"))
    return ExitCode.OK
