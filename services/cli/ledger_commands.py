"""Options and arguments of `signalbox decisions`: of one run, of many, and how often each rule fires."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from signalbox.v1 import runs_pb2

from services.cli import runs as commands
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, AsJson, Roles, fail, terminal
from services.cli.terminal import run_command

ledger_commands = typer.Typer()


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
    since: Annotated[datetime | None, typer.Option(help="Only those made then or later (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only those made before then (UTC).")] = None,
    caller: Annotated[str, typer.Option(metavar="USER", help="Only of this caller's runs. For operators.")] = "",
    correlation_id: Annotated[
        str, typer.Option("--correlation-id", metavar="ID", help="Only of runs with this correlation id.")
    ] = "",
    count: Annotated[bool, typer.Option("--count", help="Count an agent's by rule; --since is heeded.")] = False,
    every: Annotated[int, typer.Option(min=0, max=744, metavar="HOURS", help="With --count: by time.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Without RUN: at most so many.")] = 50,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """List routing decisions: of a run in order, or of many runs, those of the newest first."""
    request = runs_pb2.ListDecisionsRequest(
        agent=agent, router=router, rule=rule, destination=to, subject=caller, correlation_id=correlation_id
    )
    is_filtered = bool(request.ByteSize() or since or until)
    if (run and (is_filtered or count)) or (count and not agent):
        usage = "--count counts an agent's decisions" if count else "the decisions of a run are listed whole"
        hint = "name it with --agent, and no run" if count else "leave the run out, or the other options"
        raise fail(CliError(usage, hint=hint, code=ExitCode.USAGE))
    for moment, field in ((since, request.since_time), (until, request.until_time)):
        if moment:
            field.FromDatetime(moment.replace(tzinfo=UTC))
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    if run:
        run_command(commands.list_decisions(connection, run, terminal, as_json=as_json), terminal)
    if count:
        counted = runs_pb2.CountDecisionsRequest(agent=agent, interval_hours=every)
        if since:
            counted.since_time.CopyFrom(request.since_time)
        run_command(commands.count_decisions(connection, counted, terminal, as_json=as_json), terminal)
    run_command(commands.search_decisions(connection, request, terminal, limit=limit, as_json=as_json), terminal)
