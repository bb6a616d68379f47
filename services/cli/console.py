"""`signalbox console`: runs, questions, routes, rules and policies as pages for this machine's browser."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import AsyncExitStack
from typing import Annotated

import typer
from rich.text import Text

from services.cli.client import Connection, channel_to
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, Roles, terminal
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()


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
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    run_command(serve(connection, terminal, port=port, want_open=open_browser), terminal)


async def serve(connection: Connection, terminal: Terminal, *, port: int, want_open: bool) -> ExitCode:
    """Serves until Ctrl-C, asking the gateway with the token of the moment."""
    # What they import would slow down every other command.
    from services.console.serving import running
    from services.console.settings import ConsoleSettings

    async with AsyncExitStack() as resources:
        channel = await resources.enter_async_context(channel_to(connection))
        settings = ConsoleSettings(port=port)
        address = await resources.enter_async_context(
            running(channel, connection.address, lambda: connection.current_token, settings)
        )
        terminal.out.print(Text.assemble(("the console is at ", "dim"), address), soft_wrap=True)
        terminal.out.print(Text.assemble(("stop: ", "dim"), "Ctrl-C"))
        if want_open:
            await asyncio.to_thread(webbrowser.open, address)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # Ctrl-C or SIGTERM: how this command ends well
            terminal.err.print(Text("stopping"))
    return ExitCode.OK
