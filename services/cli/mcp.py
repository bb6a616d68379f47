"""`signalbox mcp`: agents as tools of an MCP server on standard input and output, for the caller of the command."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Final

import grpc
import typer

from services.cli.client import CALL_TIMEOUT_S, Connection, channel_to
from services.cli.errors import CliError, from_rpc
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, Roles, terminal
from services.cli.terminal import run_command

commands = typer.Typer()
# For which a call looks for a gateway that answers.
RECOVERY_S: Final = 60.0


@commands.command("mcp")
def mcp_command(
    context: typer.Context,
    agents: Annotated[
        list[str] | None, typer.Option("--agent", metavar="AGENT", help="Offer only this one; repeatable.")
    ] = None,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
) -> None:
    """Offer agents as tools to an MCP client, on standard input and output, until the client ends.

    Each agent is a tool; others answer what a run asks, follow it and explain it. Each call is a run of this caller.
    """
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(serve(connection, frozenset(agents or ())), terminal)


async def serve(connection: Connection, chosen: frozenset[str]) -> ExitCode:
    """Serves until standard input ends. Raises CliError."""
    from mcp.server.stdio import stdio_server  # with what it imports, which no other command needs

    from services.kit.agent_tools.callers import OneCaller
    from services.kit.agent_tools.tools import AgentTools, ToolFailed

    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(channel_to(connection))
        tools = AgentTools(
            channel,
            OneCaller(lambda: connection.metadata),
            chosen=chosen,
            call_timeout_s=CALL_TIMEOUT_S,
            recovery_s=RECOVERY_S,
        )
        stack.push_async_callback(tools.aclose)
        try:  # what is wrong with the connection is said before anybody waits for an answer
            await tools.listed(connection.metadata)
        except ToolFailed as error:
            raise CliError(str(error), hint="`signalbox agents` lists them", code=ExitCode.USAGE) from error
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, connection.address) from error
        server = tools.server()
        read, write = await stack.enter_async_context(stdio_server())
        await server.run(read, write, server.create_initialization_options())
    return ExitCode.OK
