"""Options and arguments of `signalbox waiting`, `resume` and `assign`."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli import questions as commands
from services.cli import render
from services.cli.invocation import As, AsJson, Roles, RunId, Timeout, terminal
from services.cli.terminal import prompt, run_command, run_part

question_commands = typer.Typer()


@question_commands.command()
def waiting(
    context: typer.Context,
    subject: As = None,
    roles: Roles = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the questions that await an answer: those you may answer, and those of your own runs."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.waiting(connection, terminal, limit=limit, as_json=as_json), terminal)


@question_commands.command()
def resume(
    context: typer.Context,
    run: RunId,
    answer: Annotated[str, typer.Argument(help="Answer to the run's question; asked for when left out.")] = "",
    option: Annotated[str, typer.Option("--answer", metavar="TEXT", help="The answer, as an option.")] = "",
    subject: As = None,
    roles: Roles = None,
    timeout: Timeout = None,
) -> None:
    """Answer the question of a run that awaits input, and follow it to its end where the run is yours."""
    connection = context.obj.connection(subject, roles=roles)
    given, asked = option or answer, None
    if not given:
        asked = run_part(commands.question_of(connection, run, timeout_s=timeout), terminal)
        given = prompt(terminal, render.question(asked.input_request))
    run_command(commands.resume(connection, run, given, terminal, asked=asked, timeout_s=timeout), terminal)


@question_commands.command()
def assign(
    context: typer.Context,
    run: RunId,
    assignee: Annotated[str, typer.Argument(help="Subject of who may answer from now on; nobody, when left out.")] = "",
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Name who may answer a run's question, besides those who may anyway."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(commands.assign(connection, run, assignee, terminal), terminal)
