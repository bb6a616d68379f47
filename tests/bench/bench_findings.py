"""Findings a minute and CPU a finding, by agent, all services included; beside them, in the same run, a question.

The model answers at once; its CPU, and that of the client asking, counts for nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from signalbox.v1 import data_chat_pb2, runs_pb2, sast_pb2

from services.local.postgres import EmbeddedPostgres
from services.local.stack import LocalStack
from services.local.topology import ModelEndpoint, StackOptions
from tests.bench import findings_script
from tests.bench.contenders import Batch, Platform
from tests.bench.findings_script import finding, make_repository
from tests.bench.model_script import QUERY, QUESTION
from tests.fixtures.scripted_model import ModelRequest, Reply, ScriptedModel

AGENTS = ("data_chat", "sast_triage", "sast_investigation")
CONCURRENCY = 8
RUNS = 60
WARM_UP_RUNS = 20
ROUNDS = 3

Found = dict[str, list[Batch]]


def run_input(agent: str, number: int, source: sast_pb2.CodeSource) -> runs_pb2.RunInput:
    """What the n-th run of an agent is given."""
    if agent == "sast_triage":
        return runs_pb2.RunInput(sast_triage=sast_pb2.SastTriageInput(finding=finding(number), source=source))
    if agent == "sast_investigation":
        asked = sast_pb2.SastInvestigationInput(finding=finding(number), source=source)
        return runs_pb2.RunInput(sast_investigation=asked)
    return runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=QUESTION))


def check(run: runs_pb2.Run) -> None:
    """Raises RuntimeError unless a run settled its finding."""
    verdict = getattr(getattr(run.output, run.agent), "verdict", sast_pb2.VERDICT_TRUE_POSITIVE)
    if verdict != sast_pb2.VERDICT_TRUE_POSITIVE:
        raise RuntimeError(f"the model's script did not lead to a verdict: {run}")


def ask_for_query(request: ModelRequest) -> Reply:
    """Plays the agent that answers questions."""
    if request.tool_messages:
        return Reply.tool_call("execute_db_query", {"query": QUERY})
    return Reply.tool_call("get_few_shot_examples", {"question": QUESTION})


@asynccontextmanager
async def scripted_model() -> AsyncIterator[ScriptedModel]:
    """Runs the model with every role's script; a role's model has the role's name."""
    async with ScriptedModel(record=False) as model:
        model.script("guard", [Reply.text("ALLOW")], repeat="last")
        model.script("format", [Reply.text("There are 6 such devices.")], repeat="last")
        model.respond("agent", ask_for_query)
        for role in ("triage", "research", "analysis", "judge"):
            model.respond(role, getattr(findings_script, role))
        yield model


async def measure(folder: Path) -> Found:
    """Runs the agents, taking turns."""
    source = await asyncio.to_thread(make_repository, folder / "repository")
    found: Found = {agent: [] for agent in AGENTS}
    with EmbeddedPostgres() as postgres:
        async with scripted_model() as model:
            roles = {role: role for role in ("triage", "research", "analysis")}
            endpoint = ModelEndpoint(model.base_url, "none", "guard", "agent", "format", "judge", roles)
            options = StackOptions(postgres_dsn=postgres.dsn(), model=endpoint, code_agents=True, code_roots=(folder,))
            async with LocalStack(options) as stack:
                platform = Platform(stack, postgres.pid)
                try:
                    for number in range(1 + ROUNDS):
                        for agent in AGENTS:
                            inputs = [run_input(agent, n, source) for n in range(RUNS if number else WARM_UP_RUNS)]
                            batch = await platform.batch_of(inputs, CONCURRENCY, check)
                            found[agent] += [batch] if number else []
                finally:
                    await platform.close()
    return found


def main() -> None:
    """Measures and prints the tables."""
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as folder:
        found = asyncio.run(measure(Path(folder)))
    services = list(found[AGENTS[0]][0].cpu_s)
    table = Table(title=f"findings, {CONCURRENCY} at once (medians of {ROUNDS} batches of {RUNS}, by turns)")
    for heading in ("", "a minute", "CPU ms", "ratio", *services):
        table.add_column(heading, justify="right" if heading else "left")
    question = statistics.median(sum(batch.cpu_s.values()) for batch in found[AGENTS[0]])
    for agent, batches in found.items():
        a_minute = statistics.median(batch.runs / batch.wall_s * 60 for batch in batches)
        in_all = statistics.median(sum(batch.cpu_s.values()) for batch in batches)
        shares = [statistics.median(batch.cpu_s[name] for batch in batches) for name in services]
        costs = [f"{cpu_s / RUNS * 1000:.1f}" for cpu_s in (in_all, *shares)]
        table.add_row(agent, f"{a_minute:,.0f}", costs[0], f"{in_all / question:.2f}", *costs[1:])
    Console(file=sys.stdout, width=140).print(table)


if __name__ == "__main__":
    main()
