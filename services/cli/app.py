"""The `signalbox` command: every command of it is in the module named after it, with its options and what it does."""

from __future__ import annotations

from importlib.metadata import version
from types import ModuleType
from typing import Annotated

import typer

from services.cli import (
    agents,
    ask,
    batches,
    check_model,
    console,
    decisions,
    demo,
    doctor,
    findings,
    graph_edits,
    investigate,
    maintenance,
    mcp,
    mcp_tools,
    pin,
    questions,
    replay,
    run,
    run_states,
    runs,
    sql_policy,
    threads,
    token,
    triage,
    up,
)
from services.cli.exit_codes import as_help
from services.cli.invocation import Gateway, Invocation

# What `--help` shows together, in the order in which one needs it.
GROUPS: dict[str, tuple[ModuleType, ...]] = {
    "Run": (up, demo, ask, run, batches, graph_edits, threads, mcp),
    "See why": (runs, run_states, decisions, agents, console),
    "Answer": (questions,),
    "Judge findings": (triage, investigate, findings),
    "Try other limits": (replay, pin),
    "Set up and look after": (doctor, check_model, sql_policy, mcp_tools, maintenance, token),
}
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="**Exit status**\n\n" + as_help(),
)
for group, modules in GROUPS.items():
    for module in modules:
        for each in (*module.commands.registered_commands, *module.commands.registered_groups):
            each.rich_help_panel = group
        app.add_typer(module.commands)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"signalbox {version('signalbox')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    gateway: Gateway = "",
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Runs agents as services, and shows why every run took its route."""
    context.obj = Invocation(gateway)
