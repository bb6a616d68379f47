"""What a platform takes that has nothing to do: what `signalbox up` starts, and with more and more runs that wait.

Every waiting run has a stream open to its caller and a request open to the model. The model's CPU and the callers' do
not count. A statement of the platform is a transaction, so those are what is counted.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

import grpc
import psycopg
from rich.console import Console
from rich.table import Table
from signalbox.v1 import runs_pb2

from services.kit.telemetry.logs import configure_logs
from services.local.database import WORLD_GRAPH_POLICY
from services.local.stack import LocalStack
from services.local.topology import StackOptions
from tests.bench.bench_overload import Lag, lag
from tests.bench.contenders import wal_bytes
from tests.bench.cpu import CpuMeters
from tests.bench.curves import draw
from tests.bench.machine import machine
from tests.chaos.deployment import Deployment, deployment, until
from tests.chaos.script import question_for
from tests.fixtures.client import RunClient, question
from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.fixtures.stack import AGENT_MODEL

RUNS, CALLERS = (0, 500, 1000, 2000), 20
LOOK_S, SETTLE_S, THINKING_S = 30.0, 15.0, 900.0
# Longer than Postgres takes between checkpoints that write pages out whole.
IDLE_S = 600.0
TIMEOUT_S = 900.0
ENV = {
    "gateway": {"SIGNALBOX_QUOTA_CONCURRENT_STREAMS": "100000", "SIGNALBOX_QUOTA_BURST": "100000"},
    "runtime": {
        "SIGNALBOX_MAX_CONCURRENT_RUNS": str(2 * RUNS[-1]),
        "SIGNALBOX_CALLER_RUNS_AT_ONCE": "0",
        "SIGNALBOX_CALLER_RUNS_PER_MINUTE": "0",
        "SIGNALBOX_MODEL_TIMEOUT_S": "600",
    },
}
_COMMITS = "SELECT coalesce(sum(xact_commit + xact_rollback), 0)::bigint FROM pg_stat_database WHERE datname <> %s"


@dataclass(frozen=True)
class Look:
    """What was used while nothing happened: CPU in shares of a core, transactions a second, how late the loop was."""

    cpu: dict[str, float]
    statements: float
    lag: Lag


def p99_s(lag: Lag) -> float:
    """Returns a bound that the event loop kept in 99 of 100 cases."""
    return min((bound for bound, later in lag.later_than.items() if later <= lag.looks / 100), default=float("inf"))


async def look(deployed: Deployment) -> Look:
    """Watches the services do nothing."""
    services = {service.name: service.pid for service in deployed.stack.services}
    meters = CpuMeters({**services, "postgres": deployed.postgres.pid})
    with psycopg.connect(deployed.postgres.dsn(), autocommit=True) as connection:

        def statements() -> int:
            row = connection.execute(_COMMITS, [connection.info.dbname]).fetchone()
            return int(row[0]) if row else 0

        lag_before = await lag(deployed)  # a scrape, whose CPU does not count
        before, asked, began = meters.total_s(), statements(), time.perf_counter()
        await asyncio.sleep(LOOK_S)
        elapsed = time.perf_counter() - began
        cpu = {name: (after - before[name]) / elapsed for name, after in meters.total_s().items()}
        return Look(cpu, (statements() - asked) / elapsed, (await lag(deployed)).since(lag_before))


async def idle() -> tuple[dict[str, float], float]:
    """Looks at all that `signalbox up` starts, with no run at all: shares of a core, and bytes of WAL a day."""
    options = StackOptions(code_agents=True, graph_policy=WORLD_GRAPH_POLICY)
    async with LocalStack(options) as stack:
        assert stack.databases.server is not None
        meters = CpuMeters({each.name: each.pid for each in stack.kept} | {"postgres": stack.databases.server.pid})
        await asyncio.sleep(SETTLE_S)
        written, before, began = wal_bytes(stack.databases.platform_dsn), meters.total_s(), time.perf_counter()
        await asyncio.sleep(IDLE_S)
        elapsed, after = time.perf_counter() - began, meters.total_s()
        a_day = (wal_bytes(stack.databases.platform_dsn) - written) / elapsed * 86_400
    return {name: (after[name] - before[name]) / elapsed for name in after}, a_day


async def measure() -> dict[int, Look]:
    """Looks at each number of waiting runs."""
    asked = 0

    def think(_: ModelRequest) -> Reply:
        nonlocal asked
        asked += 1
        return Reply.text("at last").delayed(THINKING_S)

    looks: dict[int, Look] = {}
    async with (
        deployment(replicas=1, service_env=ENV) as deployed,
        grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel,
    ):
        clients = [RunClient(channel, deployed.stack.token(str(number))) for number in range(CALLERS)]
        # Nothing to do is what comes after something.
        await asyncio.gather(*(_ask(clients[number], f"before-{number}") for number in range(CALLERS)))
        deployed.model.respond(AGENT_MODEL, think)
        tasks: list[asyncio.Task[None]] = []
        try:
            for runs in RUNS:
                more = range(len(tasks), runs)
                tasks += [asyncio.create_task(_ask(clients[n % CALLERS], f"visit-{n}")) for n in more]

                async def thinking(runs: int = runs) -> bool:
                    return asked >= runs

                await until(thinking, f"{runs} runs to wait for the model", timeout_s=TIMEOUT_S)
                await asyncio.sleep(SETTLE_S)
                looks[runs] = await look(deployed)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return looks


async def _ask(client: RunClient, name: str) -> None:
    request = runs_pb2.ExecuteRunRequest(create=question(question_for(name)))
    async for _ in client.stub.ExecuteRun(request, metadata=client.metadata, timeout=TIMEOUT_S):
        pass


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    console = Console(file=sys.stdout, width=110)
    shares, a_day = asyncio.run(idle())
    console.print("what `signalbox up` starts, with nothing to do, in shares of a core:", highlight=False)
    console.print("  ".join(f"{name} {share:.2%}" for name, share in shares.items()), highlight=False)
    console.print(f"together {sum(shares.values()):.2%}, and {a_day / 1e6:.0f} MB of WAL a day", highlight=False)
    looks = asyncio.run(measure())
    table = Table(title=f"runs that wait for a model, for {LOOK_S:g} s: shares of a core")
    for heading in ("", *(f"{runs} runs" for runs in looks)):
        table.add_column(heading, justify="right" if heading else "left")
    for name in looks[RUNS[0]].cpu:
        table.add_row(name, *(f"{each.cpu[name]:.2%}" for each in looks.values()))
    together = {runs: sum(each.cpu.values()) for runs, each in looks.items()}
    table.add_row("together", *(f"{share:.2%}" for share in together.values()))
    table.add_row("statements a second", *(f"{each.statements:.1f}" for each in looks.values()))
    table.add_row("loop lag, p99", *(f"at most {p99_s(each.lag):g} s" for each in looks.values()))
    console.print(table)
    console.print(machine(), highlight=False)
    lines: dict[str, list[tuple[float, float]]] = {
        "all services and Postgres": [(runs, share * 100) for runs, share in together.items()],
        "runtime": [(runs, each.cpu["runtime"] * 100) for runs, each in looks.items()],
    }
    title = f"Runs that wait for a model, streams open ({machine()})"
    draw("waiting", title, across="waiting runs", up="% of a core", lines=lines)


if __name__ == "__main__":
    main()
