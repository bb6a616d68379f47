"""`signalbox doctor`: what is wrong with what the settings name, and the command that mends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from services.cli.connection import Identity, connect_to
from services.cli.examination import (
    EXTRA,
    Examination,
    Found,
    examine_clock,
    examine_disk,
    examine_graph_database,
    examine_packages,
    examine_platform,
)
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, terminal
from services.cli.listing import Listing
from services.cli.progress import progress_on
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()
_MARKS = {Found.WELL: ("✓", "green"), Found.WRONG: ("✗", "red"), Found.NOT_LOOKED_AT: ("-", "dim")}


@commands.command("doctor")
def doctor_command(
    context: typer.Context,
    probe: Annotated[
        bool, typer.Option("--probe", help="Also ask each model for one token, which may cost something.")
    ] = False,
    subject: As = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with platform, packages, disk, clock, databases and models, and the command that mends it.

    It looks at what the environment names, and else at the platform of `signalbox up`. The exit status is 1 when
    something is wrong.
    """
    invocation = context.obj
    command = _doctor(
        invocation.settings, terminal, gateway=invocation.gateway, subject=subject, probe=probe, as_json=as_json
    )
    run_command(command, terminal)


async def _doctor(
    settings: CliSettings, terminal: Terminal, *, gateway: str, subject: str | None, probe: bool, as_json: bool
) -> ExitCode:
    found: list[Examination] = []
    with progress_on(terminal.err, silent=as_json) as progress:
        async for examination in _examinations(settings, gateway, subject, probe=probe):
            progress.say(examination.name)
            found.append(examination)
    if as_json:
        terminal.json_value([asdict(each) for each in found])
    else:
        shown = Listing("", "what", "seen", "mend it with")
        for each in found:
            mark, style = _MARKS[each.found]
            shown.add(Text(mark, style=style), each.name, each.seen, each.mend)
        terminal.out.print(shown)
    return ExitCode.RUN_FAILED if any(each.found is Found.WRONG for each in found) else ExitCode.OK


async def _examinations(
    settings: CliSettings, gateway: str, subject: str | None, *, probe: bool
) -> AsyncIterator[Examination]:
    identity = Identity.of(subject, admin=False)
    yield await examine_platform(lambda: connect_to(settings, identity, gateway=gateway))
    for each in (*examine_packages(), examine_disk(settings.runtime_dir), examine_graph_database()):
        yield each
    clocks: dict[str, float] = {}
    try:
        from services.cli.database_examination import examine_databases
        from services.cli.model_examination import examine_models
    except ImportError as error:  # of what comes with the extra `local` only
        seen = f"{error.name} is not installed here: it comes with the extra `{EXTRA}`"
        yield Examination("databases and models", Found.NOT_LOOKED_AT, seen)
        return
    async for each in examine_databases(settings, clocks):
        yield each
    async for each in examine_models(settings, clocks, probe=probe):
        yield each
    yield examine_clock(clocks)
