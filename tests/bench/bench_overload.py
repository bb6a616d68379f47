"""1,000 runs at once, with a stream open for each, on one replica whose models take 5 s to answer.

All end, none is claimed twice, and the replica's event loop comes round in time: it has room for some of the runs, and
the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import sys
import time
import urllib.request
from dataclasses import dataclass

import grpc
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table
from signalbox.v1 import runs_pb2

from services.kit.telemetry.names import METRIC_PREFIX
from tests.chaos.deployment import Deployment, deployment
from tests.chaos.script import question_for
from tests.fixtures.client import RunClient, question

RUNS, MODEL_S = 1000, 5.0
TIMEOUT_S = 1800.0
# The gateway lets a caller have 100 streams.
CALLERS = 20
IDLE_S = 20.0
_CLAIMS = "SELECT epoch, count(*) FROM platform.runs GROUP BY epoch ORDER BY epoch"


@dataclass(frozen=True)
class Lag:
    """How often the event loop came back later than so many seconds, of how many looks, since the replica began."""

    later_than: dict[float, int]
    looks: int

    @property
    def worst_s(self) -> float:
        """A bound that it never exceeded."""
        return min((bound for bound, count in self.later_than.items() if count == 0), default=float("inf"))

    def since(self, before: Lag) -> Lag:
        """What came on top of an earlier reading."""
        later_than = {bound: count - before.later_than[bound] for bound, count in self.later_than.items()}
        return Lag(later_than, self.looks - before.looks)


async def lag(deployed: Deployment) -> Lag:
    """Reads the lag of the only replica."""
    return await asyncio.to_thread(_read_lag, deployed.stack.runtimes[0].ready.metrics)


def _read_lag(address: str) -> Lag:
    name = METRIC_PREFIX + "event_loop_lag_seconds"
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    within = {
        float(sample.labels["le"]): int(sample.value) for sample in families[name].samples if "le" in sample.labels
    }
    looks = within.pop(float("inf"))
    return Lag({bound: looks - count for bound, count in within.items()}, looks)


async def ask(client: RunClient, name: str) -> runs_pb2.Run:
    """Asks, and watches to the end."""
    request = runs_pb2.ExecuteRunRequest(create=question(question_for(name)))
    async for response in client.stub.ExecuteRun(request, metadata=client.metadata, timeout=TIMEOUT_S):
        event = response.event
    return event.run_ended.run


async def measure(runs: int, model_s: float) -> Table:
    """Runs them all."""
    async with deployment(replicas=1, model_s=model_s) as deployed:
        idle_before = await lag(deployed)
        await asyncio.sleep(IDLE_S)
        before = await lag(deployed)
        started = time.perf_counter()
        async with grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel:
            clients = [RunClient(channel, deployed.stack.token(str(number))) for number in range(CALLERS)]
            asking = (ask(clients[number % len(clients)], f"visit-{number}") for number in range(runs))
            ended = await asyncio.gather(*asking)
        wall_s = time.perf_counter() - started
        busy = (await lag(deployed)).since(before)
        claims = await deployed.rows(_CLAIMS)
        given_back = await deployed.metric(METRIC_PREFIX + "runs_given_back_total")
    succeeded = sum(run.state == runs_pb2.RUN_STATE_SUCCEEDED for run in ended)
    table = Table(title=f"{runs} runs at once on one replica, {model_s:g} s a model call", show_header=False)
    table.add_row("succeeded", f"{succeeded} of {runs}")
    table.add_row("claims of a run", ", ".join(f"{epoch}: {count} runs" for epoch, count in claims))
    table.add_row("given back", f"{given_back:g}")
    table.add_row("wall time", f"{wall_s:.0f} s, {runs / wall_s:.1f} runs/s")
    table.add_row("loop lag, idle", f"at most {before.since(idle_before).worst_s:g} s")
    table.add_row("loop lag, busy", f"at most {busy.worst_s:g} s; later than 0.25 s: {busy.later_than[0.25]} times")
    return table


def main() -> None:
    """Measures, and prints it."""
    runs, model_s = (int(sys.argv[2]), float(sys.argv[3])) if sys.argv[3:] else (RUNS, MODEL_S)
    Console(file=sys.stdout, width=110).print(asyncio.run(measure(runs, model_s)))


if __name__ == "__main__":
    main()
