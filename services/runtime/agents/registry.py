"""Which agents there are, and which of them this runtime offers: those whose services are configured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from signalbox_routing.facts import Record

from services.kit.models.parameters import DEFAULT
from services.kit.models.prompt_files import SETTING, InvalidPromptsError, are_given, prompts_digest, use_prompts
from services.kit.models.roles import OF_SERVICES
from services.runtime.agents.agent import Agent
from services.runtime.agents.definition import DEFAULT_MODEL, AgentDefinition, AnyDefinition, InvalidDefinitionError
from services.runtime.agents.offered import Offered
from services.runtime.agents.policies import BUDGET, InvalidPoliciesError, Limits, built_in, load_policies, set_limits
from services.runtime.agents.sast_investigation.checklist import InvalidChecklistError, load_checklists
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import GUARD
from services.runtime.hosted.definition import FIELD, HostedAgent, HostedDefinition
from services.runtime.hosted.executor_catalogs import ExecutorCatalogs
from services.runtime.hosted.executor_tools import EXECUTORS
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.loading import load_graphs
from services.runtime.routing.graph import AgentGraph
from services.runtime.settings import CallSettings, FolderSettings, PolicySettings, RuntimeSettings

# Folders beside this file; the order is that of the documents.
AGENTS = (
    "data_chat",
    "sast_triage",
    "sast_investigation",
    "graph_editor",
    "incident_investigation",
)


@cache
def definitions() -> Mapping[str, AnyDefinition]:
    """Returns every agent by name. Raises InvalidDefinitionError, InvalidGraphError."""
    found: dict[str, AnyDefinition] = {}
    for name in AGENTS:
        definition = getattr(import_module(f"{__package__}.{name}.definition"), "AGENT", None)
        if not isinstance(definition, AgentDefinition) or definition.name != name:
            raise InvalidDefinitionError(f"agents/{name}/definition.py has no AGENT of the name {name!r}")
        definition.check()
        found[name] = definition
    return found


def agent_graphs() -> list[AgentGraph]:
    """Returns the graph of every agent under the policy that is built in, without services."""
    return [definition.outline for definition in definitions().values()]


def graphs_under(limits: Mapping[str, Limits]) -> list[AgentGraph]:
    """Returns the graph of every agent under these limits, without services."""
    return [definition.graph(definition.nodes, limits[name].policy) for name, definition in definitions().items()]


def built_in_limits() -> dict[str, Limits]:
    """Returns the limits of every agent when nobody sets any."""
    return {name: built_in(definition.policy, definition.budget) for name, definition in definitions().items()}


def offered(settings: RuntimeSettings) -> dict[str, AnyDefinition]:
    """Returns the agents whose services are configured; none in a pool, which offers hosted graphs only."""
    return (
        {}
        if settings.is_pool
        else {
            name: definition
            for name, definition in definitions().items()
            if all(settings.target_of(peer) for peer in definition.peers)
        }
    )


def limits_in_force(settings: PolicySettings, hosted: Iterable[HostedDefinition] = ()) -> dict[str, Limits]:
    """Returns limits and prompts of new runs of every agent, hosted graphs included. Raises InvalidPoliciesError."""
    limits = {**built_in_limits(), **{each.name: built_in(each.policy, each.budget) for each in hosted}}
    for name, definition in definitions().items():
        packages = definition.prompt_packages
        limits[name] = replace(limits[name], prompts=prompts_digest(packages), prompts_given=are_given(packages))
    file, given = settings.policy_file, settings.policies
    if file and given:
        raise InvalidPoliciesError(["SIGNALBOX_POLICY_FILE and SIGNALBOX_POLICIES are both set; unset one of them"])
    try:
        return load_policies(file, limits) if file else set_limits(given, limits)
    except OSError as error:
        raise InvalidPoliciesError([f"SIGNALBOX_POLICY_FILE: {file} can't be read: {error.strerror}"]) from error
    except InvalidPoliciesError as error:
        place = str(file) if file else "SIGNALBOX_POLICIES"
        raise InvalidPoliciesError([f"{place}: {problem}" for problem in error.problems]) from error


def limits_in_shadow(
    given: Mapping[str, Any], in_force: Mapping[str, Limits], hosted: Iterable[HostedDefinition] = ()
) -> dict[str, Record]:
    """Returns the policies of the agents whose limits are tried in shadow. Raises InvalidPoliciesError.

    Of a hosted graph those can be tried, too, that stand in its code and that nobody sets.
    """
    in_force = {**in_force, **{each.name: _to_try(each, in_force[each.name]) for each in hosted}}
    try:
        limits = set_limits(given, in_force)
    except InvalidPoliciesError as error:
        raise InvalidPoliciesError([f"SIGNALBOX_SHADOW_POLICIES: {problem}" for problem in error.problems]) from error
    if spending := sorted(agent for agent in given if BUDGET in given[agent]):
        # No rule reads a budget: that it is spent is a fact.
        raise InvalidPoliciesError(
            [f"SIGNALBOX_SHADOW_POLICIES: {agent}.{BUDGET}: budgets can't be tried" for agent in spending]
        )
    return {agent: limits[agent].policy for agent in given}


def _to_try(definition: HostedDefinition, limits: Limits) -> Limits:
    return Limits(definition.limits_to_try(limits.policy), limits.budget)


def prompt_problems(settings: CallSettings, others: Iterable[str] = ()) -> list[str]:
    """Puts an operator's prompts and checklists in force for this process, and those of other packages.

    Returns what is wrong with them.
    """
    packages = {package for definition in definitions().values() for package in definition.prompt_packages}
    packages |= set(others)
    try:
        use_prompts(settings.prompts_dir, packages)
        load_checklists()
    except InvalidPromptsError as error:
        return error.problems
    except InvalidChecklistError as error:
        return [f"{SETTING}: sast_investigation.{problem}" for problem in error.args]
    return []


def unknown_roles(settings: RuntimeSettings) -> list[str]:
    """Returns what is wrong with the setting `models`: roles in it that nobody has, and parameters of the others."""
    roles = {DEFAULT_MODEL, *(role for definition in definitions().values() for role in definition.models)}
    unknown = [
        f"SIGNALBOX_MODELS [{role}]: no agent has such a role; there are {', '.join(sorted(roles))}"
        for role in settings.models
        if role not in {*roles, DEFAULT, *OF_SERVICES}
    ]
    if settings.is_pool:
        return unknown
    return unknown + [problem for role in sorted(roles) for problem in settings.problems_of_model(role)]


async def open_hosted(
    settings: FolderSettings, stack: AsyncExitStack, catalogs: ExecutorCatalogs | None = None
) -> list[HostedDefinition]:
    """Returns the graphs that teams have brought, open for as long as the stack is. Raises InvalidAgentsError.

    Without `catalogs` they are to be looked at, and call no tools of executors.
    """
    loaded = await load_graphs(settings.agent_folders, stack, catalogs=catalogs)
    if taken := sorted({each.name for each in loaded} & {*definitions(), FIELD}):
        raise InvalidAgentsError(
            [f"{name!r} is an agent of the platform's own; name the graph otherwise" for name in taken]
        )
    made = [HostedDefinition(each) for each in loaded]
    for each in made:
        each.policy()  # limits in code that can't be set are to end the start
    return made


async def open_connections(settings: RuntimeSettings, stack: AsyncExitStack) -> Connections:
    """Returns the clients of what agents call, and of what hosted graphs may, open for as long as the stack is."""
    peers = [peer for definition in offered(settings).values() for peer in definition.peers]
    peers += [peer for peer in (GUARD, *EXECUTORS.values()) if settings.target_of(peer)]
    return await Connections.open(settings, peers, stack)


def open_agents(
    settings: RuntimeSettings,
    limits: Mapping[str, Limits],
    connections: Connections,
    hosted: Iterable[HostedDefinition] = (),
) -> Mapping[str, Offered]:
    """Returns the agents by name, with what they call."""
    agents: dict[str, Offered] = {
        name: Agent(definition, connections, limits[name]) for name, definition in offered(settings).items()
    }
    agents |= {each.name: HostedAgent(each, limits[each.name], connections) for each in hosted}
    for agent in agents.values():
        agent.under(agent.limits.policy)  # what can't be built is to end the start, not a run
    return agents
