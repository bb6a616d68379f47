"""`signalbox token`: a development token for the platform of `signalbox up`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.connection import Identity, development_token
from services.cli.endpoint import read_endpoint
from services.cli.errors import CliError, not_running
from services.cli.invocation import Admin, Roles, fail, terminal

commands = typer.Typer()


@commands.command("token")
def token_command(
    context: typer.Context,
    subject: Annotated[str, typer.Option("--as", metavar="USER", help="User to issue the token for.")],
    admin: Admin = False,
    roles: Roles = None,
    ttl: Annotated[int, typer.Option(min=1, max=86400, metavar="SECONDS", help="How long it is valid.")] = 3600,
) -> None:
    """Print a development token for the platform of `signalbox up`."""
    try:
        endpoint = read_endpoint(context.obj.settings.runtime_dir)
        if endpoint is None:
            raise not_running()
        minted = development_token(endpoint, Identity.of(subject, admin=admin, roles=roles or ()), ttl_s=ttl)
    except CliError as error:
        raise fail(error) from error
    terminal.raw(minted + "\n")
