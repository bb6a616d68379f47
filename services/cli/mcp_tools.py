"""`signalbox mcp-tools`: tools of MCP servers that agents may call, as the servers have them and as accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.invocation import terminal
from services.cli.service_module import run_module
from services.cli.terminal import run_command
from services.local.settings import inherited_environment

commands = typer.Typer()
MODULE = "services.mcp_executor.accept"


@commands.command("mcp-tools")
def mcp_tools_command(
    servers: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="File of MCP servers (YAML).")
    ],
    accept: Annotated[bool, typer.Option("--accept", help="Accept what is shown.")] = False,
    accepted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of accepted tools; `servers.accepted.json` beside the other."),
    ] = None,
    server: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this server; repeatable.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, help="A caller's token, for servers that take no other."),
    ] = None,
) -> None:
    """Show what MCP servers say of the tools that agents may call, and how that differs from what is accepted.

    A tool is offered once it is accepted, and refused when its server changes it. The exit status is 1 where a tool is
    not accepted as it is.
    """
    arguments = [str(servers), *(["--accept"] if accept else [])]
    arguments += ["--accepted", str(accepted)] if accepted else []
    arguments += [part for name in server or () for part in ("--server", name)]
    arguments += ["--token-file", str(token_file)] if token_file else []
    run_command(run_module(MODULE, *arguments, env=inherited_environment()), terminal)
