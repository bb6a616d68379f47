"""Says which unfinished runs this release could not go on with: `python -m services.runtime.commands.compat_check`.

Run it from the new release's image before a roll-out; it only reads. Exit status 1 when there is such a run, or an
agent whose tables are not shown to end under the limits that the settings give; 2 when these limits are wrong, so that
no replica would start with them, or when the database can't be used.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

import psycopg
from signalbox_routing.facts import Record

from services.kit.dsn import refuse_database, require_database
from services.kit.settings import load_settings, refuse
from services.runtime.agents.policies import InvalidPoliciesError
from services.runtime.agents.registry import agent_graphs, definitions, limits_in_force, open_hosted
from services.runtime.commands.prove import problems_under
from services.runtime.engine.compatibility import IncompatibleRun, incompatible_runs
from services.runtime.engine.database import open_pool
from services.runtime.engine.offers import offered_before
from services.runtime.engine.serde import make_serde
from services.runtime.errors import DatabaseAway
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.settings import PolicySettings

DSN_VARIABLE = "SIGNALBOX_DATABASE_DSN"


async def check(dsn: str, hosted: Sequence[HostedDefinition] = ()) -> tuple[int, list[IncompatibleRun]]:
    """Returns how many runs are unfinished, and which of them could not go on."""
    graphs = {graph.name: graph for graph in agent_graphs()} | {each.name: each.outline for each in hosted}
    policies: dict[str, type[Record]] = {name: definition.policy for name, definition in definitions().items()}
    policies |= {each.name: each.policy for each in hosted}
    serde = make_serde(set().union(*(each.types for each in hosted)))
    async with open_pool(dsn, size=2, prepare=False) as pool:
        # What other pools have is theirs to go on with.
        others = await offered_before(pool) - graphs.keys()
        looked_at = [found async for found in incompatible_runs(pool, serde, graphs, policies, others)]
    return len(looked_at), [incompatible for incompatible in looked_at if incompatible]


def report(run_count: int, found: list[IncompatibleRun]) -> str:
    """Returns what was found, in words."""
    lines = [
        f"{incompatible.run_id}  {incompatible.agent} {incompatible.graph_version}: {problem}"
        for incompatible in found
        for problem in incompatible.problems
    ]
    return "\n".join([*lines, f"{run_count} unfinished runs, of which {len(found)} could not go on", ""])


def main() -> int:
    """Checks the database that the settings name; returns the exit status."""
    settings = load_settings(PolicySettings)
    return asyncio.run(_checked(settings))


async def _checked(settings: PolicySettings) -> int:
    async with AsyncExitStack() as stack:
        try:
            hosted = await open_hosted(settings, stack)
            limits = limits_in_force(settings, hosted)
        except (InvalidPoliciesError, InvalidAgentsError) as error:
            refuse(error.problems)
        dsn = settings.database_dsn.get_secret_value()
        require_database(dsn, DSN_VARIABLE)
        try:
            run_count, found = await check(dsn, hosted)
        except (DatabaseAway, psycopg.Error) as error:
            refuse_database(error, DSN_VARIABLE)
    problems = list(problems_under(limits))
    sys.stdout.write("".join(f"{problem}\n" for problem in problems) + report(run_count, found))
    return 1 if found or problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
