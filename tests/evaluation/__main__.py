"""`make eval`: asks a platform what cases/ holds, prints what is right and wrong, and writes it to files.

Without an endpoint the offline model answers; OPENAI_BASE_URL and SIGNALBOX_AGENT_MODEL, and the other settings of
`signalbox up`, name another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from services.cli.configured import model_endpoint
from services.cli.settings import CliSettings
from services.kit.models.roles import ROLES
from services.local.database import WORLD_GRAPH_POLICY
from services.local.topology import ModelEndpoint
from tests.evaluation.agents import AGENTS, Surroundings
from tests.evaluation.asking import Case
from tests.evaluation.results import Evaluation, compare, table
from tests.fixtures.stack import Platform, World, platform, world

OFFLINE: Final = "offline rules, no language model"


@asynccontextmanager
async def standing(
    data: World, model: ModelEndpoint | None = None, **runtime: str
) -> AsyncIterator[tuple[Platform, Surroundings]]:
    """A platform with all its agents, settings of its runtime, and what there is around it."""
    env = {"runtime": {name: value for name, value in runtime.items() if value}}
    with TemporaryDirectory(prefix="signalbox-evaluation-") as name:
        options = {"code_agents": True, "code_roots": (Path(name),), "graph_policy": WORLD_GRAPH_POLICY}
        async with platform(data, model=model, service_env=env, **options) as running:
            yield running, Surroundings(data.owner_dsn, running.stack.graph_database.url, Path(name))


async def evaluate(
    running: Platform,
    around: Surroundings,
    agents: Sequence[str],
    *,
    every: int = 1,
    at_once: int = 2,
    wall_time_s: int = 0,
    before: Evaluation | None = None,
    path: Path | None = None,
) -> Evaluation:
    """Asks every so-manieth case of the agents, some at once, and none that was asked `before`.

    What came of a case is in the file `path` when the case has ended.
    """
    found = before or Evaluation(_models(running.stack.options.model), {}, [])
    asked = {(each.agent, each.case) for each in found.results}
    free = asyncio.Semaphore(at_once)

    async def ask(case: Case) -> None:
        async with free:
            result, run = await case.ask(running, wall_time_s)
        found.policies[run.agent] = run.policy.version
        found.results.append(result)
        sys.stderr.write(f"{result.agent}, {result.score}: {result.case} → {result.said}\n")
        if path:
            found.write(path)

    for agent in agents:
        cases = await AGENTS[agent](around)
        await asyncio.gather(*(ask(case) for case in cases[::every] if (agent, case.name) not in asked))
    return found


def _models(endpoint: ModelEndpoint | None) -> dict[str, str]:
    if endpoint is None:
        return {"all": OFFLINE}
    named = {"guard": endpoint.guard_model, "evaluator": endpoint.evaluator_model}
    return {
        role: model for role, model in {**named, **{role: endpoint.model_of(role) for role in ROLES}}.items() if model
    }


async def _run(wanted: argparse.Namespace) -> int:
    model = model_endpoint(CliSettings())
    name = re.sub(r"\W+", "-", model.agent_model) if model else "offline"
    settings = {"SIGNALBOX_POLICIES": wanted.policies, "SIGNALBOX_MODEL_TIMEOUT_S": wanted.model_timeout_s}
    path = wanted.out or Path(".eval") / f"{name}.md"
    earlier = path.with_suffix(".json")
    before = Evaluation.read(earlier) if wanted.continued and earlier.exists() else None
    async with world() as data, standing(data, model, **settings) as (running, around):
        found = await evaluate(
            running, around, wanted.agents, every=wanted.every, at_once=wanted.at_once,
            wall_time_s=wanted.wall_time_s, before=before, path=path,
        )  # fmt: skip
    sys.stdout.write(f"{table(found)}\nwritten to {path.with_suffix('.md')} and {path.with_suffix('.json')}\n")
    return 0


def main() -> int:
    """Evaluates, or compares two evaluations."""
    parser = argparse.ArgumentParser(prog="make eval", description=__doc__)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--every", type=int, default=1, help="ask only every so-manieth case")
    parser.add_argument("--at-once", type=int, default=2, help="runs at a time")
    parser.add_argument("--policies", default="", help="limits of the agents, as SIGNALBOX_POLICIES has them")
    parser.add_argument("--model-timeout-s", default="", help="seconds that a model may take, as the runtime has them")
    parser.add_argument("--wall-time-s", type=int, default=0, help="seconds that a run may take; 0: as always")
    parser.add_argument("--continue", dest="continued", action="store_true", help="ask only what the file has not")
    parser.add_argument("--out", type=Path, help="file for the table; JSON goes beside it")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="JSON files of two evaluations"
    )
    wanted = parser.parse_args()
    if wanted.policies:
        json.loads(wanted.policies)
    if wanted.compare:
        sys.stdout.write(compare(*map(Evaluation.read, wanted.compare)))
        return 0
    return asyncio.run(_run(wanted))


if __name__ == "__main__":
    sys.exit(main())
