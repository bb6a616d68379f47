"""Shows that every agent's tables end: `python -m services.runtime.commands.prove`.

Status 1 and a walk where one does not. With `--policies FILE` under the limits that a policy file sets; status 2 where
that file is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from services.runtime.agents.policies import InvalidPoliciesError, Limits, load_policies
from services.runtime.agents.registry import agent_graphs, built_in_limits, definitions, graphs_under
from services.runtime.routing.proof import Proof, prove


def main(arguments: Sequence[str]) -> int:
    """Proves every agent's graph, and says what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m services.runtime.commands.prove", description="Proves decision tables."
    )
    parser.add_argument("--policies", type=Path, metavar="FILE", help="prove them under the limits that this file sets")
    file: Path | None = parser.parse_args(arguments).policies
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
