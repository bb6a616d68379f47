"""When a caller hears the first token of a hosted graph's model, beside plain LangGraph in one process.

The model takes its time for each word. Turns alternate.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

import grpc
from rich.console import Console
from rich.table import Table
from signalbox.v1 import hosted_pb2, runs_pb2

from services.kit.telemetry.logs import configure_logs
from tests.chaos.deployment import deployment
from tests.fixtures.client import RunClient
from tests.fixtures.hosted import FOLDER, graph_alone

TURNS = 60
AGENT = "speech"
GIVEN = {"messages": ["Go."]}


async def alone_s() -> float:
    """Returns how long plain LangGraph takes to the first token."""
    began = time.perf_counter()
    async for chunk, _ in graph_alone(AGENT, AGENT).compile().astream(GIVEN, stream_mode="messages"):
        if chunk.content:
            break
    return time.perf_counter() - began


async def through_gateway_s(client: RunClient) -> float:
    """Returns how long a caller waits for it."""
    asked = hosted_pb2.GraphInput(agent=AGENT)
    asked.input.update(GIVEN)
    create = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph=asked))
    began = time.perf_counter()
    async for event in client.execute(create, token_chunks=True):
        if event.HasField("token_chunk"):
            return time.perf_counter() - began
    raise RuntimeError("nothing was heard")


async def measure() -> tuple[list[float], list[float]]:
    """Returns both, turn by turn."""
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER)}}
    async with (
        deployment(replicas=2, service_env=env) as deployed,
        grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel,
    ):
        client = RunClient(channel, deployed.stack.token("27"))
        for _ in range(5):
            await alone_s()
            await through_gateway_s(client)
        turns = [(await alone_s(), await through_gateway_s(client)) for _ in range(TURNS)]
    alone, through = zip(*turns, strict=True)
    return list(alone), list(through)


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    alone, through = asyncio.run(measure())
    differences = [(after - before) * 1000 for before, after in zip(alone, through, strict=True)]
    table = Table(title=f"first token, {TURNS} turns", show_header=False)
    table.add_row("LangGraph alone, median", f"{statistics.median(alone) * 1000:.1f} ms")
    table.add_row("through the gateway, median", f"{statistics.median(through) * 1000:.1f} ms")
    table.add_row("later, median of turns", f"{statistics.median(differences):.1f} ms")
    table.add_row("later, 95th percentile", f"{statistics.quantiles(differences, n=20)[-1]:.1f} ms")
    Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
