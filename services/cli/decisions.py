"""`signalbox decisions`: routing decisions of one run or of many, and how often each rule fires."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer
from rich.text import Text
from signalbox.v1 import agents_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, AsJson, Roles, Since, Until, fail, terminal
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()
_COUNTED_BY = {"agent", "since_time"}


@commands.command("decisions")
def decisions_command(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run; without one, all that the caller may see.")] = "",
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Only of this agent.")] = "",
    router: Annotated[str, typer.Option(metavar="ROUTER", help="Only by this router.")] = "",
    rule: Annotated[str, typer.Option(metavar="RULE", help="Only by this rule.")] = "",
    to: Annotated[
        str, typer.Option(metavar="NODE", help="Only those that led to this node; the end is `__end__`.")
    ] = "",
    since: Since = None,
    until: Until = None,
    caller: Annotated[str, typer.Option(metavar="USER", help="Only of this caller's runs. For operators.")] = "",
    correlation_id: Annotated[
        str, typer.Option("--correlation-id", metavar="ID", help="Only of runs with this correlation id.")
    ] = "",
    count: Annotated[
        bool, typer.Option("--count", help="Count an agent's decisions by rule; accepts --since.")
    ] = False,
    every: Annotated[
        int, typer.Option(min=0, max=744, metavar="HOURS", help="With --count: by intervals of this many hours.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Without RUN: maximum number to show.")] = 50,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """List routing decisions: of one run in order, or of many runs, newest run first."""
    request = runs_pb2.ListDecisionsRequest(
        agent=agent, router=router, rule=rule, destination=to, subject=caller, correlation_id=correlation_id,
        since_time=since, until_time=until,
    )  # fmt: skip
    if misused := _misused(request, run, count=count, every=every):
        raise fail(misused)
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    if run:
        run = run_id_of(connection, run, terminal)
        run_command(list_decisions(connection, run, terminal, as_json=as_json), terminal)
    if count:
        counted = runs_pb2.CountDecisionsRequest(agent=agent, interval_hours=every, since_time=since)
        run_command(count_decisions(connection, counted, terminal, as_json=as_json), terminal)
    run_command(search_decisions(connection, request, terminal, limit=limit, as_json=as_json), terminal)


def _misused(request: runs_pb2.ListDecisionsRequest, run: str, *, count: bool, every: int) -> CliError | None:
    """What is wrong with options that do not go together; None: nothing."""
    given = {field.name for field, _ in request.ListFields()}
    if count and (run or not request.agent):
        usage, hint = "--count counts an agent's decisions", "name it with --agent, and no run"
    elif count and given - _COUNTED_BY:
        usage, hint = "--count takes --agent, --since and --every alone", "leave --count out, or the other options"
    elif run and given:
        usage, hint = "the decisions of a run are listed whole", "leave the run out, or the other options"
    elif every and not count:
        usage, hint = "--every says how --count counts", "give --count and --agent too"
    else:
        return None
    return CliError(usage, hint=hint, code=ExitCode.USAGE)


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
        if request.router and not decisions:
            await _check_router(gateway, request.router)
    if as_json:
        terminal.json_list(decisions)
    elif decisions:
        terminal.out.print(render.found_decisions(decisions))
    else:
        terminal.err.print(Text("no matching decisions"))
    return ExitCode.OK


async def _check_router(gateway: GatewayClient, router: str) -> None:
    """Raises CliError for a router that no agent here has, and that has decided nothing."""
    offered = (await gateway.call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())).agents
    known = sorted({name for agent in offered for name in agent.routers})
    if router in known:
        return
    near = get_close_matches(router, known, n=3, cutoff=0.4) or [name for name in known if router in name][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    raise CliError(f"no agent here has a router {router!r}", hint=hint, code=ExitCode.USAGE)


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
        terminal.err.print(Text(f"{told}, so rules that never fired among these may have fired before"))
    return ExitCode.OK
