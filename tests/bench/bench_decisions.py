"""What a decision costs: path functions of the example graphs as code, as code with its lifted table, and as tables.

Code is the function alone, as LangGraph calls it. Lifted is what the platform does beside it: the function, and its
table held against it. A table is the one that `signalbox adopt` writes, as LangGraph calls it, and as the platform asks
it, with its facts for the ledger. On the same states, which are made for each function; CPU of the thread, the least of
many rounds by turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from services.runtime.hosted.adoption.adopted import NOWHERE, adopted, outcome, table_in
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.lifting.states import States
from services.runtime.hosted.loading import load_graphs

FOLDER = Path(__file__).parents[2] / "examples" / "graphs"
STATES, ROUNDS = 300, 40
WAYS = ("code", "lifted beside it", "table", "table, recorded")
Decide = Callable[[Any, str], None]


def contenders(definition: HostedDefinition) -> Iterator[tuple[str, dict[str, Decide], list[tuple[Any, str]]]]:
    """Yields each lifted path function by the name of its router, with the ways to decide and the states."""
    graph, found = definition.graph_given, definition.lifted
    written = adopted(graph, definition.name, found, "tables", STATES)
    tables = {edge.router: table_in(written.module, edge.table) for edge in written.edges}
    for branch in found.branches:
        lifted, table, function = found.routers.get(branch.router), tables.get(branch.router), branch.function
        if lifted is None or table is None or function is None:
            continue
        made = States(lifted.table, lifted.arguments[0], lifted.router.policy)
        of_tables = [(state, outcome(table, state, None)) for state in (made.one() for _ in range(STATES * 4))]
        # Where it would have to run code of a value's own to look, a lifted table is put away.
        of_lifted = [outcome(lifted.router, state, None) for state, _ in of_tables]
        decided = [each for each, other in zip(of_tables, of_lifted, strict=True) if NOWHERE != each[1] == other]
        decided = decided[:STATES]

        def code(state: Any, _place: str, function: Any = function) -> None:
            function(state)

        def beside(state: Any, place: str, lifted: Any = lifted, function: Any = function) -> None:
            function(state)
            lifted.decision(state, {}, place)

        def alone(state: Any, _place: str, table: Any = table) -> None:
            table(state)

        def recorded(state: Any, _place: str, table: Any = table) -> None:
            table.decide(state)

        yield branch.router, dict(zip(WAYS, (code, beside, alone, recorded), strict=True)), decided
        if lifted.off:
            raise RuntimeError(f"{branch.router}: {lifted.off}")


def cost_us(decide: Decide, states: list[tuple[Any, str]]) -> float:
    """CPU of a decision in microseconds."""
    began = time.thread_time_ns()
    for state, place in states:
        decide(state, place)
    return (time.thread_time_ns() - began) / 1000 / len(states)


async def measure(console: Console) -> None:
    """Measures every path function of the examples that is a table."""
    shown = Table("path function", *(f"{name}, µs" for name in WAYS), "ratios to code")
    async with AsyncExitStack() as stack:
        for loaded in await load_graphs([FOLDER], stack, packages=False):
            for router, ways, states in contenders(HostedDefinition(loaded)):
                best = dict.fromkeys(ways, float("inf"))
                for _ in range(ROUNDS):
                    for name, decide in ways.items():
                        best[name] = min(best[name], cost_us(decide, states))
                ratios = " / ".join(f"{best[name] / best[WAYS[0]]:.1f}" for name in WAYS[1:])
                shown.add_row(router, *(f"{each:.1f}" for each in best.values()), ratios)
    console.print(shown)


def main() -> None:
    """Prints what a decision costs."""
    console = Console(width=160)
    console.print("CPU of a decision")
    asyncio.run(measure(console))


if __name__ == "__main__":
    main()
