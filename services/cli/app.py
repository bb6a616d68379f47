"""The `signalbox` command: every command of it is in the module named after it, with its options and what it does."""

from __future__ import annotations

import typer

from services.cli import (
    agents,
    ask,
    check_model,
    console,
    decisions,
    demo,
    findings,
    graph_edits,
    investigate,
    maintenance,
    pin,
    questions,
    replay,
    run,
    runs,
    sql_policy,
    threads,
    token,
    triage,
    up,
)
from services.cli.exit_codes import as_help
from services.cli.invocation import Gateway, Invocation

COMMANDS = (
    up, demo, check_model, ask, run, runs, pin, triage, investigate, findings, graph_edits, questions, threads,
    decisions, agents, console, replay, maintenance, sql_policy, token,
)  # fmt: skip
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="**Exit status**\n\n" + as_help(),
)
for module in COMMANDS:
    app.add_typer(module.commands)


@app.callback()
def root(context: typer.Context, gateway: Gateway = "") -> None:
    """Runs agents as services, and shows why every run took its route."""
    context.obj = Invocation(gateway)
