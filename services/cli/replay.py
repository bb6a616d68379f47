"""`signalbox replay`: past decisions, decided again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict
from rich.console import Group, RenderableType
from rich.text import Text
from signalbox.v1 import maintenance_pb2, runs_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, Since, fail, terminal
from services.cli.listing import Listing
from services.cli.runtime_command import runtime_command
from services.cli.settings import replay_environment
from services.cli.terminal import Terminal, run_command
from services.kit.text.printing import printable
from services.kit.text.words import several, tokens

commands = typer.Typer()

# Counting what is due, and reading the ledger, take their time in a large database.
TIMEOUT_S = 600.0
COMPAT_CHECK = "services.runtime.commands.compat_check"
PROVE = "services.runtime.commands.prove"
CASES = "services.runtime.cases"


@commands.command("replay")
def replay_command(
    context: typer.Context,
    router: Annotated[
        str | None, typer.Option(metavar="ROUTER", help="Router, such as data_chat.route_after_agent.")
    ] = None,
    case: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A run that `signalbox pin` wrote.")
    ] = None,
    goes_on: Annotated[
        bool, typer.Option("--continue", help="With --case: where a decision differs, ask the model from there on.")
    ] = False,
    agents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", exists=True, file_okay=False, resolve_path=True, help="With --case: folder of its graph."
        ),
    ] = None,
    limits: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a limit of its policy; repeatable.")
    ] = None,
    verifies: Annotated[
        bool, typer.Option("--verify", help="Replay every decision under the policy it was made with.")
    ] = False,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of runs to show.")] = 100,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Show which past runs would have taken another route under other limits, without asking a model. For operators.

    With --verify show which decisions differ when made again from the same facts and limits; exit status 1 if any does.
    With --case show whether a pinned run still decides the same; exit status 1 if not. It needs no platform, and
    with --continue reads the runtime's model settings: SIGNALBOX_MODELS,
    or SIGNALBOX_MODEL_BASE_URL and SIGNALBOX_AGENT_MODEL.
    """
    try:
        given = parse_limits(limits or ())
    except CliError as error:
        raise fail(error) from error
    if case and not (verifies or router or since):
        run_command(replay_case(case, limits or (), terminal, goes_on=goes_on, agents=agents), terminal)
        return
    if case or goes_on or agents or verifies == bool(router) or (given and not router):
        hint = "give --router ROUTER or --case FILE, each with --set NAME=VALUE, or --verify"
        raise fail(CliError("no decisions to replay were named", hint=hint, code=ExitCode.USAGE))
    connection = context.obj.connection(subject, roles=roles)
    if verifies:
        all_of_it = maintenance_pb2.VerifyDecisionsRequest(since_time=since, max_disagreements=limit)
        run_command(verify(connection, all_of_it, terminal, as_json=as_json), terminal)
        return
    request = maintenance_pb2.ReplayDecisionsRequest(
        router=router, limits=given, since_time=since, max_divergences=limit
    )
    run_command(replay(connection, request, terminal, as_json=as_json), terminal)


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
        skipped = (
            f"{response.skipped_count:,} could not be decided anew: their facts are blanked or have an older form,"
        )
        parts.append(Text(f"{skipped} or their router or policy is unknown here.", style="yellow"))
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
        parts.append(
            Text("To make this permanent, set in the policy file (SIGNALBOX_POLICY_FILE, or `policies` of the chart):")
        )
        parts.append(Text(policy_lines(router, limits), style="bold"))
    if response.skipped_count:
        skipped = f"{response.skipped_count:,} of {response.decision_count:,} decisions could not be decided anew:"
        parts.append(Text(f"{skipped} their facts are blanked or have an older form.", style="yellow"))
    return Group(*parts)


def policy_lines(router: str, limits: Mapping[str, str]) -> str:
    """The limits as a policy file sets them."""
    lines = [f"{printable(router.partition('.')[0])}:"]
    return "\n".join([*lines, *(f"  {printable(name)}: {printable(value)}" for name, value in sorted(limits.items()))])


def spent(spend: runs_pb2.Spend) -> str:
    """What was spent, in words."""
    calls = f"{several(spend.model_calls, 'model call')}, {several(spend.tool_calls, 'tool call')}"
    return f"{calls}, {tokens(spend.token_usage)}, {spend.wall_time_s:,.1f} s"


def _way(rule: str, destination: str) -> str:
    return f"{printable(rule)} → {'the end' if destination == '__end__' else printable(destination)}"


async def replay_case(
    case: Path, limits: Iterable[str], terminal: Terminal, *, goes_on: bool, agents: Path | None = None
) -> ExitCode:
    """Runs the runtime's own command, which needs no platform; its output is this one's."""
    arguments = [part for limit in limits for part in ("--set", limit)]
    arguments += [*(("--continue",) if goes_on else ()), "--", str(case)]
    environment = replay_environment(asks_models=goes_on)
    if agents:
        environment["SIGNALBOX_AGENT_FOLDERS"] = str(agents)
    return await runtime_command(CASES, environment, terminal, *arguments)
