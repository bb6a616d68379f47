"""`signalbox prune`, `replay` and `compat-check`: what operators do to the platform's own data."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from signalbox.v1 import maintenance_pb2, runs_pb2

from services.cli.client import Connection, open_gateway
from services.cli.console import Terminal
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.settings import inherited_environment
from services.cli.words import printable, tokens

# Counting what is due, and reading the ledger, take their time in a large database.
TIMEOUT_S = 600.0
COMPAT_CHECK = "services.runtime.compat_check"


async def prune(connection: Connection, terminal: Terminal, *, dry_run: bool, as_json: bool) -> ExitCode:
    """Remove what is due, or say what would be removed."""
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
        terminal.err.print(Text("nothing is due"))
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


def pruned_table(pruned: Sequence[maintenance_pb2.PrunedData], *, dry_run: bool) -> Table:
    """What was, or would be, removed."""
    table = Table(box=None, header_style="bold dim", pad_edge=False)
    for name in ("would remove" if dry_run else "removed", "agent", "rows", "bytes"):
        table.add_column(name, justify="right" if name in ("rows", "bytes") else "left")
    for data in pruned:
        kind = maintenance_pb2.RetainedKind.Name(data.kind).removeprefix("RETAINED_KIND_").lower()
        table.add_row(kind, printable(data.agent), f"{data.row_count:,}", f"{data.size_bytes:,}")
    return table


def parse_limits(settings: Iterable[str]) -> dict[str, str]:
    """Limits of `name=value` texts. Raises CliError."""
    limits = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise CliError(f"{setting!r} sets no limit", hint="write --set name=value", code=ExitCode.USAGE)
        limits[name] = value
    return limits


async def replay(
    connection: Connection, request: maintenance_pb2.ReplayDecisionsRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Show which runs would have gone elsewhere under other limits."""
    async with open_gateway(connection) as gateway:
        response = await gateway.call(gateway.maintenance.ReplayDecisions, request, timeout_s=TIMEOUT_S)
    if as_json:
        terminal.json(response)
    else:
        terminal.out.print(replayed(response, request.limits))
    return ExitCode.OK


def replayed(response: maintenance_pb2.ReplayDecisionsResponse, limits: Mapping[str, str]) -> RenderableType:
    """Where runs would have left their way, and what they spent after that."""
    table = Table(box=None, header_style="bold dim", pad_edge=False)
    for name in ("run", "step", "went", "would have gone", "spent after"):
        table.add_column(name, justify="right" if name == "step" else "left", no_wrap=name == "run")
    for each in response.divergences:
        table.add_row(
            printable(each.run_id), str(each.sequence), _way(each.rule, each.destination),
            _way(each.other_rule, each.other_destination), spent(each.spent_after),
        )  # fmt: skip
    changed = ", ".join(f"{printable(name)} = {printable(value)}" for name, value in limits.items()) or "today's limits"
    summary = (
        f"With {changed}, {response.diverged_count:,} of {response.run_count:,} runs would have gone elsewhere; "
        f"after that they spent {spent(response.spent_after)}."
    )
    parts: list[RenderableType] = [table, Text()] if response.divergences else []
    parts.append(Text(summary))
    if response.diverged_count > len(response.divergences):
        parts.append(Text(f"The first {len(response.divergences):,} are shown.", style="dim"))
    if response.skipped_count:
        skipped = f"{response.skipped_count:,} of {response.decision_count:,} decisions could not be decided anew:"
        parts.append(Text(f"{skipped} their facts are blanked or of an older shape.", style="yellow"))
    return Group(*parts)


def spent(spend: runs_pb2.Spend) -> str:
    """What was spent, in words."""
    calls = f"{spend.model_calls:,} model calls, {spend.tool_calls:,} tool calls"
    return f"{calls}, {tokens(spend.token_usage)}, {spend.wall_time_s:,.1f} s"


def _way(rule: str, destination: str) -> str:
    return f"{printable(rule)} → {'the end' if destination == '__end__' else printable(destination)}"


async def compat_check(dsn: str) -> ExitCode:
    """Run the runtime's own command; its output is this one's."""
    if not dsn:
        hint = "set SIGNALBOX_DATABASE_DSN to the URL of the platform's database"
        raise CliError("no database is named", hint=hint, code=ExitCode.USAGE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", COMPAT_CHECK, env=inherited_environment() | {"SIGNALBOX_DATABASE_DSN": dsn}
    )
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return {0: ExitCode.OK, 2: ExitCode.USAGE}.get(status, ExitCode.RUN_FAILED)
