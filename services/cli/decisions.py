"""Options and arguments of `signalbox decisions`: of one run, of many, and how often each rule fires."""

from __future__ import annotations

from typing import Annotated

import typer
from signalbox.v1 import runs_pb2

from services.cli import runs as commands
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, AsJson, Roles, Since, Until, fail, terminal
from services.cli.terminal import run_command

ledger_commands = typer.Typer()
_COUNTED_BY = {"agent", "since_time"}


@ledger_commands.command()
def decisions(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run; all that the caller may see when left out.")] = "",
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
    count: Annotated[bool, typer.Option("--count", help="Count an agent's by rule; takes --since.")] = False,
    every: Annotated[int, typer.Option(min=0, max=744, metavar="HOURS", help="With --count: by time.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Without RUN: at most so many.")] = 50,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """List routing decisions: of a run in order, or of many runs, those of the newest first."""
    request = runs_pb2.ListDecisionsRequest(
        agent=agent, router=router, rule=rule, destination=to, subject=caller, correlation_id=correlation_id,
        since_time=since, until_time=until,
    )  # fmt: skip
    if misused := _misused(request, run, count=count, every=every):
        raise fail(misused)
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    if run:
        run_command(commands.list_decisions(connection, run, terminal, as_json=as_json), terminal)
    if count:
        counted = runs_pb2.CountDecisionsRequest(agent=agent, interval_hours=every, since_time=since)
        run_command(commands.count_decisions(connection, counted, terminal, as_json=as_json), terminal)
    run_command(commands.search_decisions(connection, request, terminal, limit=limit, as_json=as_json), terminal)


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
