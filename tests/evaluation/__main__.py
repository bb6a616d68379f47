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
from typing import Any

from services.cli.configured import model_endpoint
from services.cli.settings import CliSettings
from services.cli.up import with_prompts
from services.local.database import WORLD_GRAPH_POLICY
from tests.evaluation.agents import AGENTS, Surroundings
from tests.evaluation.asking import Case
from tests.evaluation.results import Evaluation, compare, table
from tests.fixtures.stack import Platform, World, platform, world


@asynccontextmanager
async def standing(data: World, **options: Any) -> AsyncIterator[tuple[Platform, Surroundings]]:
    """A platform with all its agents, and what there is around it; `options` as in `platform`."""
    with TemporaryDirectory(prefix="signalbox-evaluation-") as name:
        all_agents: Any = {"code_agents": True, "code_roots": (Path(name),), "graph_policy": WORLD_GRAPH_POLICY}
        async with platform(data, **all_agents, **options) as running:
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
    found = before or Evaluation([])
    asked = found.cases
    free = asyncio.Semaphore(at_once)

    async def ask(case: Case) -> None:
        async with free:
            result = await case.ask(running, wall_time_s)
        found.results.append(result)
        sys.stderr.write(f"{result.agent}, {result.score}: {result.case} → {result.said}\n")
        if path:
            found.write(path)

    for agent in agents:
        cases = await AGENTS[agent](around)
        await asyncio.gather(*(ask(case) for case in cases[::every] if (agent, case.name) not in asked))
    return found


async def _run(wanted: argparse.Namespace) -> int:
    settings = CliSettings()
    model = model_endpoint(settings)
    name = re.sub(r"\W+", "-", model.agent_model) if model else "models" if settings.models else "offline"
    runtime = {"SIGNALBOX_POLICIES": wanted.policies, "SIGNALBOX_MODEL_TIMEOUT_S": wanted.model_timeout_s}
    prompts = wanted.prompts and wanted.prompts.resolve()
    service_env = with_prompts({"runtime": {key: value for key, value in runtime.items() if value}}, prompts)
    path = wanted.out or Path(".eval") / f"{name}.md"
    earlier = path.with_suffix(".json")
    before = Evaluation.read(earlier) if wanted.continued and earlier.exists() else None
    models: dict[str, Any] = {"model": model, "models": settings.models, "model_keys": settings.model_keys}
    async with world() as data, standing(data, service_env=service_env, **models) as (running, around):
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
    parser.add_argument(
        "--prompts",
        type=Path,
        help="folder of prompts, as SIGNALBOX_PROMPTS_DIR has it",
    )
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
