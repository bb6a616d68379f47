"""Options and arguments of `signalbox prune`, `replay` and `compat-check`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from signalbox.v1 import maintenance_pb2

from services.cli import maintenance as commands
from services.cli.console import run_command
from services.cli.errors import CliError
from services.cli.invocation import As, AsJson, Roles, fail, terminal

operator_commands = typer.Typer()


@operator_commands.command()
def prune(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Remove now what retention has no use for any more; the runtime does so by itself, too. For operators."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.prune(connection, terminal, dry_run=dry_run, as_json=as_json), terminal)


@operator_commands.command()
def replay(
    context: typer.Context,
    router: Annotated[str, typer.Option(metavar="ROUTER", help="Router, such as data_chat.route_after_agent.")],
    limits: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a limit of its policy; repeatable.")
    ] = None,
    since: Annotated[datetime | None, typer.Option(help="Only decisions made since then (UTC).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most so many runs.")] = 100,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Show which past runs other limits would have led elsewhere, without asking a model. For operators."""
    try:
        request = maintenance_pb2.ReplayDecisionsRequest(
            router=router, limits=commands.parse_limits(limits or ()), max_divergences=limit
        )
    except CliError as error:
        raise fail(error) from error
    if since:
        request.since_time.FromDatetime(since.replace(tzinfo=UTC))
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.replay(connection, request, terminal, as_json=as_json), terminal)


@operator_commands.command("compat-check")
def compat_check(context: typer.Context) -> None:
    """Say which unfinished runs this release could not go on with; exit status 1 when there is one.

    Reads SIGNALBOX_DATABASE_DSN, the URL of the platform's database. For use before a roll-out.
    """
    run_command(commands.compat_check(context.obj.settings.database_dsn.get_secret_value()), terminal)
