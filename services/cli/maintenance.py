"""`signalbox prune`, `compat-check`, `prove`, `lift` and `adopt`: what is done to stored data, and seen of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from signalbox.v1 import maintenance_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, fail, terminal
from services.cli.listing import Listing
from services.cli.runtime_command import runtime_command
from services.cli.terminal import Terminal, run_command
from services.kit.text.words import several

commands = typer.Typer()

# Counting what is due, and reading the ledger, take their time in a large database.
TIMEOUT_S = 600.0
LIFT = "services.runtime.commands.lift"
ADOPT = "services.runtime.commands.adopt"
COMPAT_CHECK = "services.runtime.commands.compat_check"
PROVE = "services.runtime.commands.prove"
CASES = "services.runtime.cases"


@commands.command("prune")
def prune_command(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Remove expired data now; the runtime also does so by itself. For operators."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(prune(connection, terminal, dry_run=dry_run, as_json=as_json), terminal)


@commands.command("erase-store")
def erase_store_command(
    context: typer.Context,
    caller: Annotated[str, typer.Argument(metavar="CALLER", help="User whose items to delete.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Delete what the stores of hosted graphs hold of a caller. For operators."""
    if not yes:
        typer.confirm(f"Delete what all stores hold of {caller}?", abort=True, err=True)
    connection = context.obj.connection(subject, roles=roles)
    run_command(erase_store(connection, caller, terminal), terminal)


@commands.command("compat-check")
def compat_check_command(context: typer.Context) -> None:
    """List unfinished runs that this release could not continue; exit status 1 if there are any.

    Reads SIGNALBOX_DATABASE_DSN, the URL of the platform's database. For use before a roll-out.
    """
    dsn = context.obj.settings.database_dsn.get_secret_value()
    run_command(compat_check(dsn, terminal), terminal)


@commands.command("prove")
def prove_command(
    policies: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Prove under the limits of this policy file."),
    ] = None,
    agents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Prove what can be proved of the graphs of this folder.",
        ),
    ] = None,
) -> None:
    """Prove that every run of every agent ends, and what it uses at most; exit status 1 and a counterexample if not."""
    if policies and agents:
        hint = "give one of --policies and --agents"
        raise fail(CliError("a policy file sets no limits of hosted graphs", hint=hint, code=ExitCode.USAGE))
    run_command(prove(policies, agents, terminal), terminal)


@commands.command("lift")
def lift_command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Folder with a langgraph.json.")
    ],
) -> None:
    """Show the path functions of hosted graphs as decision tables, or why one can't be shown as one."""
    run_command(runtime_command(LIFT, {}, terminal, "--", str(folder)), terminal)


@commands.command("adopt")
def adopt_command(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Graph whose tables to write down.")],
    agents: Annotated[
        Path, typer.Option(metavar="FOLDER", exists=True, file_okay=False, help="Folder with its langgraph.json.")
    ] = Path(),
    module: Annotated[str, typer.Option(metavar="NAME", help="Module to write beside the graph's.")] = "",
    write: Annotated[bool, typer.Option("--write", help="Put the tables at the graph's edges, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    states: Annotated[int, typer.Option(min=100, max=1_000_000, help="States to hold each table against.")] = 10_000,
) -> None:
    """Write the tables of a graph's path functions into its own code, with a test for each rule."""
    options = [
        *(["--write"] if write else []),
        *(["--force"] if force else []),
        *(["--module", module] if module else []),
    ]
    given = ("--agents", str(agents), "--states", str(states), *options, "--", agent)
    run_command(runtime_command(ADOPT, {}, terminal, *given), terminal)


async def prune(connection: Connection, terminal: Terminal, *, dry_run: bool, as_json: bool) -> ExitCode:
    """Removes what is due, or says what would be removed."""
    request = maintenance_pb2.PruneRequest(dry_run=dry_run)
    responses: list[maintenance_pb2.PruneResponse] = []
    async with open_gateway(connection) as gateway:
        while not responses or responses[-1].more:
            responses.append(await gateway.call(gateway.maintenance.Prune, request, timeout_s=TIMEOUT_S))
    pruned = summed(data for response in responses for data in response.pruned)
    if as_json:
        terminal.json(maintenance_pb2.PruneResponse(pruned=pruned))
    elif pruned:
        terminal.out.print(pruned_table(pruned, dry_run=dry_run))
    else:
        terminal.err.print(Text("nothing to remove"))
    return ExitCode.OK


async def erase_store(connection: Connection, caller: str, terminal: Terminal) -> ExitCode:
    """Deletes a caller's items."""
    request = maintenance_pb2.EraseStoreRequest(subject=caller)
    async with open_gateway(connection) as gateway:
        erased = await gateway.call(gateway.maintenance.EraseStore, request, timeout_s=TIMEOUT_S)
    terminal.out.print(Text(f"{several(erased.item_count, 'item')} deleted"))
    return ExitCode.OK


def summed(pruned: Iterable[maintenance_pb2.PrunedData]) -> list[maintenance_pb2.PrunedData]:
    """What was pruned, one for each kind and agent."""
    rows, sizes = Counter[tuple[maintenance_pb2.RetainedKind, str]](), Counter[tuple[int, str]]()
    for data in pruned:
        rows[data.kind, data.agent] += data.row_count
        sizes[data.kind, data.agent] += data.size_bytes
    return [
        maintenance_pb2.PrunedData(kind=kind, agent=agent, row_count=count, size_bytes=sizes[kind, agent])
        for (kind, agent), count in sorted(rows.items())
    ]


def pruned_table(pruned: Sequence[maintenance_pb2.PrunedData], *, dry_run: bool) -> Listing:
    """What was, or would be, removed."""
    what = "would remove" if dry_run else "removed"
    table = Listing(what, "agent", "rows", "bytes", right=("rows", "bytes"))
    for data in pruned:
        kind = maintenance_pb2.RetainedKind.Name(data.kind).removeprefix("RETAINED_KIND_").lower()
        table.add(kind, data.agent, f"{data.row_count:,}", f"{data.size_bytes:,}")
    return table


async def compat_check(dsn: str, terminal: Terminal) -> ExitCode:
    """Runs the runtime's own command; its output is this one's."""
    if not dsn:
        hint = "set SIGNALBOX_DATABASE_DSN to the URL of the platform's database"
        raise CliError("no database is named", hint=hint, code=ExitCode.USAGE)
    return await runtime_command(COMPAT_CHECK, {"SIGNALBOX_DATABASE_DSN": dsn}, terminal)


async def prove(policies: Path | None, agents: Path | None, terminal: Terminal) -> ExitCode:
    """Runs the runtime's own command, which needs no platform; its output is this one's."""
    given = [("--policies", policies), ("--agents", agents)]
    return await runtime_command(
        PROVE, {}, terminal, *(part for name, path in given if path for part in (name, str(path)))
    )
