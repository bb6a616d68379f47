"""`signalbox pin`: a recorded run as a file that replays it without model or executor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson
from rich.text import Text
from signalbox.v1 import cases_pb2

from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import (
    As,
    Roles,
    RunId,
    terminal,
)
from services.cli.output_files import OutputFile
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, run_command
from services.kit.wire.event_kinds import ENDED_RUN_STATES

commands = typer.Typer()

FORM = 1


@commands.command("pin")
def pin_command(
    context: typer.Context,
    run: RunId,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write it to this file instead of standard output."),
    ] = None,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Write a recorded run as a test case, which `signalbox replay --case FILE` replays without a model or an executor.

    The file holds what the run's nodes asked and received, which is as confidential as its output.
    """
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    run_command(pin(connection, run, terminal, output=output), terminal)


async def pin(connection: Connection, run_id: str, terminal: Terminal, *, output: Path | None) -> ExitCode:
    """Writes a run as a case, or prints it."""
    file = OutputFile(output) if output else None
    if file:
        file.check()
        file.remove_older()
    async with open_gateway(connection) as gateway:
        case = await case_of(gateway, run_id)
    text = MessageToJson(case, preserving_proto_field_name=True, ensure_ascii=False) + "\n"
    if file is None:
        terminal.raw(text)
        return ExitCode.OK
    file.write_text(text)
    told = f"{output} holds {run_id}: {len(case.decisions)} decisions, {len(case.answers)} answers that its nodes heard"
    terminal.out.print(Text(told))
    terminal.err.print(Text(f"signalbox replay --case {output}", style="dim"))
    return ExitCode.OK


async def case_of(gateway: GatewayClient, run_id: str) -> cases_pb2.Case:
    """Returns a run as a case. Raises CliError."""
    run = await gateway.get(run_id)
    if run.state not in ENDED_RUN_STATES:
        raise CliError(f"{run_id} has not ended", hint="pin it when it has ended", code=ExitCode.REFUSED)
    answers = await gateway.recorded_answers(run_id)
    decisions = await gateway.decisions(run_id)
    if not run.HasField("policy"):
        raise CliError(f"{run_id} ended before it began", hint="there is nothing to replay", code=ExitCode.REFUSED)
    return cases_pb2.Case(form=FORM, run=run, answers=answers, decisions=decisions)
