"""Says which unfinished runs this release could not go on with: `python -m services.runtime.compat_check`.

Run it from the new release's image before a roll-out; it only reads. Exit status 1 when there is such a run.
"""

from __future__ import annotations

import asyncio
import sys

from services.kit.settings import load_settings
from services.runtime.documentation import agent_graphs
from services.runtime.engine.compatibility import Misfit, misfits
from services.runtime.engine.database import open_pool
from services.runtime.engine.serde import make_serde
from services.runtime.settings import MigrationSettings


async def check(dsn: str) -> tuple[int, list[Misfit]]:
    """Returns how many runs are unfinished, and which of them could not go on."""
    graphs = {graph.name: graph for graph in agent_graphs()}
    async with open_pool(dsn, size=2, prepare=False) as pool:
        looked_at = [misfit async for misfit in misfits(pool, make_serde(), graphs)]
    return len(looked_at), [misfit for misfit in looked_at if misfit]


def report(run_count: int, found: list[Misfit]) -> str:
    """Returns what was found, in words."""
    lines = [
        f"{misfit.run_id}  {misfit.agent} {misfit.graph_version}: {problem}"
        for misfit in found
        for problem in misfit.problems
    ]
    return "\n".join([*lines, f"{run_count} unfinished runs, of which {len(found)} could not go on", ""])


def main() -> int:
    """Checks the database that the settings name; returns the exit status."""
    settings = load_settings(MigrationSettings)
    run_count, found = asyncio.run(check(settings.database_dsn.get_secret_value()))
    sys.stdout.write(report(run_count, found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
