"""Options and arguments of `signalbox prune`, `replay`, `compat-check` and `prove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from signalbox.v1 import maintenance_pb2

from services.cli import maintenance as commands
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, Since, fail, terminal
from services.cli.terminal import run_command

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
    router: Annotated[
        str | None, typer.Option(metavar="ROUTER", help="Router, such as data_chat.route_after_agent.")
    ] = None,
    case: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A run that `signalbox pin` wrote.")
    ] = None,
    goes_on: Annotated[
        bool, typer.Option("--continue", help="With --case: where it decides otherwise, ask the model from there on.")
    ] = False,
    limits: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a limit of its policy; repeatable.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decide all decisions by the policies that they were made by.")
    ] = False,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most so many runs.")] = 100,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Show which past runs other limits would have led elsewhere, without asking a model. For operators.

    With --verify show which decisions come out otherwise by the same facts and limits; exit status 1 when there is one.
    With --case show whether a run still decides the same, and where not; exit status 1 then. It needs no platform, and
    with --continue the runtime's settings of its models, such as SIGNALBOX_MODEL_BASE_URL and SIGNALBOX_AGENT_MODEL.
    """
    try:
        given = commands.parse_limits(limits or ())
    except CliError as error:
        raise fail(error) from error
    if case and not (verify or router or since):
        run_command(commands.replay_case(case, limits or (), terminal, goes_on=goes_on), terminal)
        return
    if case or goes_on or verify == bool(router) or (given and not router):
        hint = "give --router ROUTER or --case FILE, each with --set NAME=VALUE, or --verify"
        raise fail(CliError("nothing says what is to be decided again", hint=hint, code=ExitCode.USAGE))
    connection = context.obj.connection(subject, roles=roles)
    if verify:
        all_of_it = maintenance_pb2.VerifyDecisionsRequest(since_time=since, max_disagreements=limit)
        run_command(commands.verify(connection, all_of_it, terminal, as_json=as_json), terminal)
        return
    request = maintenance_pb2.ReplayDecisionsRequest(
        router=router, limits=given, since_time=since, max_divergences=limit
    )
    run_command(commands.replay(connection, request, terminal, as_json=as_json), terminal)


@operator_commands.command("compat-check")
def compat_check(context: typer.Context) -> None:
    """Say which unfinished runs this release could not go on with; exit status 1 when there is one.

    Reads SIGNALBOX_DATABASE_DSN, the URL of the platform's database. For use before a roll-out.
    """
    dsn = context.obj.settings.database_dsn.get_secret_value()
    run_command(commands.compat_check(dsn, terminal), terminal)


@operator_commands.command()
def prove(
    policies: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Under the limits that this policy file sets."),
    ] = None,
) -> None:
    """Show that every agent's decision tables end, and what a run takes at most; exit status 1 and a walk if not."""
    run_command(commands.prove(policies, terminal), terminal)
