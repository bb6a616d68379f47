"""Runs as commands are told of them: by id, by the beginning of one, or as `last`."""

from __future__ import annotations

from functools import partial

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.terminal import Terminal, run_part
from services.console.run_names import RunNotNamed, is_id, run_named


def run_id_of(connection: Connection, name: str, terminal: Terminal) -> str:
    """Returns the id of the run that is named so; ends the command where there is none, or more than one."""
    return name if is_id(name) else run_part(_found(connection, name), terminal)


async def _found(connection: Connection, name: str) -> str:
    async with open_gateway(connection) as gateway:
        try:
            return await run_named(name, partial(gateway.call, gateway.runs.ListRuns))
        except RunNotNamed as error:
            raise CliError(
                str(error), hint="`signalbox runs` lists the runs you may see", code=ExitCode.USAGE
            ) from error
