"""`signalbox console`: runs, questions, routes, rules and policies as pages for this machine's browser."""

from __future__ import annotations

import asyncio
import time
import webbrowser
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Annotated

import typer
from rich.text import Text

from services.cli.client import Connection, channel_to
from services.cli.connection import Identity, connect_to
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, Invocation, Roles, terminal
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()
# Of a development token, which is good for an hour.
RENEW_AFTER_S = 1800.0


@commands.command()
def console(
    context: typer.Context,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1 to serve at; 0: any.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve pages of runs, questions, routes, rules and policies to this machine's browser, until Ctrl-C.

    They show what the caller may see, at 127.0.0.1 only. The printed address pairs a browser with the console.
    """
    invocation: Invocation = context.obj
    connection = invocation.connection(subject, admin=admin, roles=roles)
    identity = Identity.of(subject, admin=admin, roles=roles or ())

    def connected_again() -> Connection:
        return connect_to(invocation.settings, identity, gateway=invocation.gateway)

    served = serve(connection, token_source(connection, connected_again), terminal, port=port, want_open=open_browser)
    run_command(served, terminal)


async def serve(
    connection: Connection, token: Callable[[], str], terminal: Terminal, *, port: int, want_open: bool
) -> ExitCode:
    """Serves until Ctrl-C, asking the gateway with the token of the moment."""
    # What they import would slow down every other command.
    from services.console.serving import running
    from services.console.settings import ConsoleSettings

    async with AsyncExitStack() as resources:
        channel = await resources.enter_async_context(channel_to(connection))
        settings = ConsoleSettings(port=port)
        address = await resources.enter_async_context(running(channel, connection.address, token, settings))
        terminal.out.print(Text.assemble(("the console is at ", "dim"), address), soft_wrap=True)
        terminal.out.print(Text.assemble(("stop: ", "dim"), "Ctrl-C"))
        if want_open:
            await asyncio.to_thread(webbrowser.open, address)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # Ctrl-C or SIGTERM: how this command ends well
            terminal.err.print(Text("stopping"))
    return ExitCode.OK


def token_source(
    first: Connection, again: Callable[[], Connection], *, renew_after_s: float = RENEW_AFTER_S
) -> Callable[[], str]:
    """Returns what gives the token of the moment: one of one's own stays, a development token is made anew in time."""
    # By the clock that tokens expire by: the other one stands still while the machine sleeps.
    token, since = first.token, time.time()

    def current() -> str:
        nonlocal token, since
        if not 0 <= time.time() - since <= renew_after_s:
            try:
                token, since = again().token, time.time()
            except CliError:
                return token  # the platform is gone from here; the gateway says so, or that the token is too old
        return token

    return current
