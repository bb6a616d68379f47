"""`signalbox prune`, `replay`, `compat-check` and `prove`: what operators do to the platform's own data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from rich.console import Group, RenderableType
from rich.text import Text
from signalbox.v1 import maintenance_pb2, runs_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.listing import Listing
from services.cli.runtime_command import runtime_command
from services.cli.settings import models_environment
from services.cli.terminal import Terminal
from services.kit.text.printing import printable
from services.kit.text.words import tokens

# Counting what is due, and reading the ledger, take their time in a large database.
TIMEOUT_S = 600.0
COMPAT_CHECK = "services.runtime.commands.compat_check"
PROVE = "services.runtime.commands.prove"
CASES = "services.runtime.cases"


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


def pruned_table(pruned: Sequence[maintenance_pb2.PrunedData], *, dry_run: bool) -> Listing:
    """What was, or would be, removed."""
    what = "would remove" if dry_run else "removed"
    table = Listing(what, "agent", "rows", "bytes", right=("rows", "bytes"))
    for data in pruned:
        kind = maintenance_pb2.RetainedKind.Name(data.kind).removeprefix("RETAINED_KIND_").lower()
        table.add(kind, data.agent, f"{data.row_count:,}", f"{data.size_bytes:,}")
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
    """Shows which runs would have gone elsewhere under other limits."""
    async with open_gateway(connection) as gateway:
        response = await gateway.call(gateway.maintenance.ReplayDecisions, request, timeout_s=TIMEOUT_S)
    if as_json:
        terminal.json(response)
    else:
        terminal.out.print(replayed(response, request.router, request.limits))
    return ExitCode.OK


async def verify(
    connection: Connection, request: maintenance_pb2.VerifyDecisionsRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Shows which stored decisions come out otherwise by the policy that they were made by."""
    async with open_gateway(connection) as gateway:
        response = await gateway.call(gateway.maintenance.VerifyDecisions, request, timeout_s=TIMEOUT_S)
    if as_json:
        terminal.json(response)
    else:
        terminal.out.print(verified(response))
    return ExitCode.RUN_FAILED if response.disagreement_count else ExitCode.OK


def verified(response: maintenance_pb2.VerifyDecisionsResponse) -> RenderableType:
    """The decisions that come out otherwise, each with its facts."""
    table = Listing("run", "step", "router", "went", "would go", "facts", right=("step",))
    for each in response.disagreements:
        facts = ", ".join(f"{printable(name)} = {value!r}" for name, value in sorted(MessageToDict(each.facts).items()))
        table.add(
            each.run_id, str(each.sequence), printable(each.router), _way(each.rule, each.destination),
            _way(each.other_rule, each.other_destination), printable(facts),
        )  # fmt: skip
    parts: list[RenderableType] = [table, Text()] if response.disagreements else []
    told = f"{response.disagreement_count:,} of {response.decision_count:,} decisions come out otherwise."
    parts.append(Text(told))
    if response.disagreement_count > len(response.disagreements):
        parts.append(Text(f"{len(response.disagreements):,} of them are shown.", style="dim"))
    if response.skipped_count:
        skipped = f"{response.skipped_count:,} could not be decided anew: their facts are blanked or of an older shape,"
        parts.append(Text(f"{skipped} or their router or policy is not known here.", style="yellow"))
    return Group(*parts)


def replayed(
    response: maintenance_pb2.ReplayDecisionsResponse, router: str, limits: Mapping[str, str]
) -> RenderableType:
    """Where runs would have left their way, and what they spent after that."""
    table = Listing("run", "step", "went", "would have gone", "spent after", right=("step",))
    for each in response.divergences:
        table.add(
            each.run_id, str(each.sequence), _way(each.rule, each.destination),
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
    if limits:
        parts.append(Text("To have it so, in the policy file (SIGNALBOX_POLICY_FILE, or `policies` of the chart):"))
        parts.append(Text(policy_lines(router, limits), style="bold"))
    if response.skipped_count:
        skipped = f"{response.skipped_count:,} of {response.decision_count:,} decisions could not be decided anew:"
        parts.append(Text(f"{skipped} their facts are blanked or of an older shape.", style="yellow"))
    return Group(*parts)


def policy_lines(router: str, limits: Mapping[str, str]) -> str:
    """The limits as a policy file sets them."""
    lines = [f"{printable(router.partition('.')[0])}:"]
    return "\n".join([*lines, *(f"  {printable(name)}: {printable(value)}" for name, value in sorted(limits.items()))])


def spent(spend: runs_pb2.Spend) -> str:
    """What was spent, in words."""
    calls = f"{spend.model_calls:,} model calls, {spend.tool_calls:,} tool calls"
    return f"{calls}, {tokens(spend.token_usage)}, {spend.wall_time_s:,.1f} s"


def _way(rule: str, destination: str) -> str:
    return f"{printable(rule)} → {'the end' if destination == '__end__' else printable(destination)}"


async def compat_check(dsn: str, terminal: Terminal) -> ExitCode:
    """Runs the runtime's own command; its output is this one's."""
    if not dsn:
        hint = "set SIGNALBOX_DATABASE_DSN to the URL of the platform's database"
        raise CliError("no database is named", hint=hint, code=ExitCode.USAGE)
    return await runtime_command(COMPAT_CHECK, {"SIGNALBOX_DATABASE_DSN": dsn}, terminal)


async def prove(policies: Path | None, terminal: Terminal) -> ExitCode:
    """Runs the runtime's own command, which needs no platform; its output is this one's."""
    return await runtime_command(PROVE, {}, terminal, *(("--policies", str(policies)) if policies else ()))


async def replay_case(case: Path, limits: Iterable[str], terminal: Terminal, *, goes_on: bool) -> ExitCode:
    """Runs the runtime's own command, which needs no platform; its output is this one's."""
    arguments = [part for limit in limits for part in ("--set", limit)]
    arguments += [*(("--continue",) if goes_on else ()), "--", str(case)]
    return await runtime_command(CASES, models_environment() if goes_on else {}, terminal, *arguments)
