"""Shows that every agent's tables end: `python -m services.runtime.commands.prove`.

Status 1 and a walk where one does not. With `--policies FILE` under the limits that a policy file sets; status 2 where
that file is wrong. With `--agents FOLDER` what can be said of hosted graphs, whose nodes declare nothing: that tables
lifted from their code are total, and which rules of these nothing comes to.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from services.runtime.agents.policies import InvalidPoliciesError, Limits, load_policies
from services.runtime.agents.registry import agent_graphs, built_in_limits, definitions, graphs_under
from services.runtime.commands.lift import definitions_of
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.lifting.tables import RAISES
from services.runtime.routing.proof import Proof, prove
from services.runtime.routing.reachable import unreached_rules
from services.runtime.routing.variables import NotAModel


def main(arguments: Sequence[str]) -> int:
    """Proves every agent's graph, and says what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m services.runtime.commands.prove", description="Proves decision tables."
    )
    parser.add_argument("--policies", type=Path, metavar="FILE", help="prove them under the limits that this file sets")
    parser.add_argument("--agents", type=Path, metavar="FOLDER", help="say what holds of the graphs of this folder")
    given = parser.parse_args(arguments)
    if given.agents:
        return asyncio.run(_tables_of(given.agents))
    file: Path | None = given.policies
    try:
        graphs = graphs_under(load_policies(file, built_in_limits())) if file else agent_graphs()
    except OSError as error:
        sys.stderr.write(f"{file} can't be read: {error.strerror}\n")
        return 2
    except InvalidPoliciesError as error:
        sys.stderr.writelines(f"{file}: {problem}\n" for problem in error.problems)
        return 2
    proofs = [prove(graph) for graph in graphs]
    for proof in proofs:
        sys.stdout.write(in_words(proof))
    return int(any(proof.problems for proof in proofs))


async def _tables_of(folder: Path) -> int:
    """Says what holds of the tables that a folder's graphs were lifted to; returns the exit status."""
    async with AsyncExitStack() as stack:
        try:
            definitions = await definitions_of(folder, stack)
        except InvalidAgentsError as error:
            sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
            return 2
        lines = [line for each in definitions for line in tables_in_words(each)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(any(line.startswith("✗") for line in lines))


def tables_in_words(definition: HostedDefinition) -> Iterator[str]:
    """Yields what holds of a hosted graph, line by line."""
    for _, router in definition.lifted.tables:
        try:
            unreached = [rule for rule in unreached_rules(router) if not rule.startswith(RAISES)]
        except NotAModel as error:
            yield f"✓ {router.name}: always one rule holds; more is not shown: {error}"
            continue
        told = f"nothing comes to {', '.join(unreached)}" if unreached else "each of them can"
        yield f"{'✗' if unreached else '✓'} {router.name}: always one of {len(router.rules)} rules holds, and {told}"
    for other in definition.lifted.others:
        yield f"  {other.router}: nothing is shown, as it is code: {other.reason}"
    steps = definition.outline.max_steps
    yield f"✓ {definition.name}: every run ends, by max_steps ({steps:,}) at the latest: its nodes declare nothing"


def problems_under(limits: Mapping[str, Limits]) -> Iterator[str]:
    """Yields what makes a table bad under limits that somebody set; those that are built in were proved before."""
    for name, definition in definitions().items():
        if limits[name].policy != definition.policy():
            yield from prove(definition.graph(definition.nodes, limits[name].policy)).problems


def in_words(proof: Proof) -> str:
    """Returns what was shown of a graph, line by line."""
    if proof.problems:
        return "".join(f"✗ {problem}\n" for problem in proof.problems)
    graph = proof.graph
    most = ", ".join(proof.costs)
    lines = [f"✓ {graph.name}: every run ends, after at most {most} ({proof.positions:,} positions)"]
    lines += [f"  {router}: no run comes to {rule} under the present limits" for router, rule in proof.unused]
    lines += [
        f"  {router.name}: no run comes to {rule.name}: {rule.unreachable_because}"
        for router in graph.routers
        for rule in router.rules
        if rule.unreachable_because
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
