"""`signalbox agents` and `policies`: what can be run, and under which limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.text import Text
from signalbox.v1 import agents_pb2, maintenance_pb2, policy_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import As, AsJson, Roles, terminal
from services.cli.listing import Listing
from services.cli.terminal import Terminal, run_command
from services.kit.text.limit_changes import author_of, reason_of, release_of, source_of, values_of
from services.kit.text.printing import printable
from services.kit.text.words import limit_text, moment, origin_name
from services.kit.wire.input_schema import agents_known, is_hosted

commands = typer.Typer()


@commands.command("agents")
def agents_command(context: typer.Context, subject: As = None, roles: Roles = None, as_json: AsJson = False) -> None:
    """List the agents that the platform offers."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(list_agents(connection, terminal, as_json=as_json), terminal)


@commands.command("policies")
def policies_command(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only those of this agent.")] = "",
    changes: Annotated[
        bool, typer.Option("--changes", help="What changed when, by whom and why; for operators. The newest 50.")
    ] = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """List the limits of new runs and where each comes from; `explain` shows those of a run."""
    connection = context.obj.connection(subject, roles=roles)
    if changes:
        run_command(list_changes(connection, terminal, agent=agent, as_json=as_json), terminal)
        return
    run_command(list_policies(connection, terminal, agent=agent, as_json=as_json), terminal)


async def list_agents(connection: Connection, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Shows the agents that the platform offers."""
    agents = await _agents(connection)
    if as_json:
        terminal.json_list(agents)
        return ExitCode.OK
    table = Listing("agent", "what it does", "input", "graph", "")
    for agent in agents:
        note = "" if agent.name in agents_known() or is_hosted(agent) else "unknown to this command: too old for it"
        if agent.HasField("away_since"):
            note = f"its pool, {printable(agent.pool)}, is away since {moment(agent.away_since)}; runs wait for it"
        table.add(agent.name, agent.description, agent.input_type, agent.graph_version, Text(note, style="yellow"))
    terminal.out.print(table)
    return ExitCode.OK


async def list_policies(connection: Connection, terminal: Terminal, *, agent: str, as_json: bool) -> ExitCode:
    """Shows the limits that new runs get, and where each comes from."""
    agents = await _agents(connection)
    _check(agent, agents)
    wanted = [each for each in agents if agent in ("", each.name)]
    if as_json:
        terminal.json_list(wanted)
        return ExitCode.OK
    table = Listing("agent", "limit", "value", "from", right=("value",))
    for each in wanted:
        for name, value, origin in limits_of(each.policy):
            table.add(each.name, name, value, origin)
        if each.policy.prompts:
            table.add(each.name, "prompts", each.policy.prompts, "")
    terminal.out.print(table)
    return ExitCode.OK


async def list_changes(connection: Connection, terminal: Terminal, *, agent: str, as_json: bool) -> ExitCode:
    """Shows what changed in the limits of new runs, newest first."""
    request = maintenance_pb2.ListLimitChangesRequest(agent=agent)
    async with open_gateway(connection) as gateway:
        changes = (await gateway.call(gateway.maintenance.ListLimitChanges, request)).changes
    if as_json:
        terminal.json_list(changes)
        return ExitCode.OK
    if agent and not changes:
        # Of an agent that is gone there may be changes; one without any has to be there.
        _check(agent, await _agents(connection))
    terminal.out.print(changes_table(changes))
    return ExitCode.OK


def changes_table(changes: Iterable[maintenance_pb2.LimitChange]) -> Listing:
    """What changed in limits, each with the circumstances of its change."""
    table = Listing("agent", "when", "limit", "value", "from", "by", "with", "because")
    for change in changes:
        when, circumstances = moment(change.change_time), (author_of(change), release_of(change), reason_of(change))
        for limit in change.limits:
            table.add(change.agent, when, limit.name, values_of(limit), source_of(limit), *circumstances)
        if not change.limits:
            table.add(change.agent, when, "the record begins", "", "", *circumstances)
    return table


def _check(agent: str, agents: Sequence[agents_pb2.Agent]) -> None:
    if agent and agent not in (known := [each.name for each in agents]):
        hint = "name one of these"
        raise CliError(f"no agent {agent!r} runs here; there are {', '.join(known)}", hint=hint, code=ExitCode.USAGE)


def limits_of(policy: policy_pb2.Policy) -> Iterable[tuple[str, str, Text]]:
    """Name, value and origin of every limit; those of the budget as in a policy file."""
    for prefix, limits in (("", policy.limits), ("budget.", policy.budget)):
        for limit in limits:
            is_default = limit.origin == policy_pb2.LIMIT_ORIGIN_DEFAULT
            origin = Text(origin_name(limit.origin), style="dim" if is_default else "bold")
            yield prefix + limit.name, limit_text(limit.value), origin


async def graph_version(connection: Connection, name: str) -> str:
    """Returns the digest of an agent's graph; empty when the platform does not offer it. Raises CliError."""
    return next((each.graph_version for each in await _agents(connection) if each.name == name), "")


async def _agents(connection: Connection) -> list[agents_pb2.Agent]:
    async with open_gateway(connection) as gateway:
        response = await gateway.call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())
    return list(response.agents)
