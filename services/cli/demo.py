"""`signalbox demo`, which is `make run`: every scene goes through the whole platform, then everything stops."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from rich.text import Text

from services.cli.exit_codes import ExitCode
from services.cli.invocation import (
    terminal,
)
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()


@commands.command("demo")
def demo_command(context: typer.Context) -> None:
    """Start the platform, ask four questions, edit a graph, investigate an incident and findings, and stop it."""
    run_command(_demo(context.obj.settings, terminal), terminal)


async def _demo(settings: CliSettings, terminal: Terminal) -> ExitCode:
    """Plays every scene on a platform of its own; RUN_FAILED when one does not go as it should."""
    from services.cli.demo_scenes import play_all  # what it imports comes with the extra `local` only

    with TemporaryDirectory(prefix="signalbox-demo-") as name:
        problems = await play_all(settings, Path(name), terminal)
    terminal.rule()
    for problem in problems:
        terminal.err.print(Text(f"not as expected: {problem}", style="red"))
    if problems:
        return ExitCode.RUN_FAILED
    terminal.out.print(Text("All went as expected. `make up` keeps the platform running; `signalbox ask` asks it."))
    return ExitCode.OK
