"""Router tables and graphs as documents: `python -m services.runtime.commands.documentation [--check] docs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from signalbox_routing.facts import as_dict
from signalbox_routing.table import END, Choice, Router, Rule
from signalbox_routing.terms import InvalidTableError
from signalbox_routing.words import in_words

from services.runtime.agents.definition import AnyDefinition
from services.runtime.agents.policies import BUDGET, BUDGET_BOUNDS, bounds_of
from services.runtime.agents.registry import agent_graphs, definitions
from services.runtime.routing.digest import policy_version
from services.runtime.routing.graph import NODE_FAILED, AgentGraph
from services.runtime.routing.proof import prove
from services.runtime.routing.stopping import RUN_CANCELLED

_AGENTS = """# Agents

Generated from their definitions by `make docs`. Operators set limits by these names (`docs/operations.md`), where 0 of
a budget is no limit. ARCHITECTURE.md says how an agent is added.
"""


def mermaid(graph: AgentGraph) -> str:
    """Returns the graph as LangGraph draws it."""
    return graph.compile().get_graph().draw_mermaid()


def router_table(router: Router[Any, Any]) -> str:
    """Returns a router's rules as a Markdown table, in the order in which they are tried."""
    lines = [f"### `{router.name}`", "", "| # | rule | holds when | goes to | changes |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for number, rule in enumerate(router.rules, start=1):
        changes = ", ".join(f"`{name}` = {value!r}" for name, value in rule.update.items())
        when = in_words(rule.when, router.policy)
        lines.append(f"| {number} | `{rule.name}` | {when} | {_way(rule, router.policy)} | {changes} |")
    limits = ", ".join(f"`{name}` {value}" for name, value in as_dict(router.policy).items())
    lines += ["", f"Limits ({type(router.policy).__name__}, version `{policy_version(router.policy)}`): {limits}.", ""]
    return "\n".join(lines)


def shown(graph: AgentGraph) -> str:
    """Returns what `signalbox prove` shows of a graph, as sentences. Raises InvalidTableError when it shows nothing."""
    proof = prove(graph)
    if proof.problems:
        raise InvalidTableError("\n".join(proof.problems))
    unused = [f"- No run comes to `{rule}` of `{router}` under these limits." for router, rule in proof.unused]
    declared = [
        f"- No run comes to `{rule.name}` of `{router.name}`, whatever the limits: {rule.unreachable_because}."
        for router in graph.routers
        for rule in router.rules
        if rule.unreachable_because
    ]
    lines = [f"Every run ends, after at most {', '.join(proof.costs)}.", *([""] if unused or declared else [])]
    return "\n".join([*lines, *unused, *declared])


def _way(rule: Rule, policy: object) -> str:
    """Returns where a rule leads, in words; with what decides it when that is more than one place."""
    if not isinstance(rule.to, Choice):
        return _place(rule.to)
    cases = [f"{_place(to)} if {in_words(when, policy)}" for when, to in rule.to.cases]
    return ", ".join([*cases, f"else {_place(rule.to.otherwise)}"])


def _place(destination: str) -> str:
    return "end" if destination == END else destination


def agent_section(definition: AnyDefinition) -> str:
    """Returns what an agent is, with its limits and their bounds, in Markdown."""
    lines = [f"## {definition.name}", "", definition.description, "", "| | |", "| --- | --- |"]
    facts = {
        "input, output": f"`{definition.input.DESCRIPTOR.name}`, `{definition.output.DESCRIPTOR.name}`",
        "graph": f"[drawn](graphs/{definition.name}.mmd); its tables are in [routers.md](routers.md)",
        "calls": ", ".join(peer.title for peer in definition.peers),
        "models, by role": _names(definition.models),
        "tools": _names(sorted(definition.outline.tools)),
        "ids that its decisions carry": _names(definition.ids),
    }
    lines += [f"| {name} | {fact} |" for name, fact in facts.items() if fact]
    lines += ["", "| limit | default | least | most |", "| --- | --- | --- | --- |"]
    limits = {
        **as_dict(definition.policy()),
        **{f"{BUDGET}.{name}": value for name, value in definition.budget.items()},
    }
    bounds = {**bounds_of(definition.policy), **{f"{BUDGET}.{name}": each for name, each in BUDGET_BOUNDS.items()}}
    for name, value in limits.items():
        least, most = _bounds(bounds[name])
        lines.append(f"| `{name}` | {value} | {least} | {most} |")
    return "\n".join([*lines, ""])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _bounds(hint: Any) -> tuple[Any, Any]:
    """Returns the least and the most that a limit may be."""
    schema = TypeAdapter(hint).json_schema()
    return schema.get("minimum", ""), schema.get("maximum", "")


def documents() -> dict[str, str]:
    """Returns every generated document by its path below docs."""
    made = {}
    parts = [
        "# Routers",
        "",
        "Generated from the decision tables by `make docs`. Rules are tried in order; the first that holds wins.",
        f"Before any table, `{NODE_FAILED}` ends the run as failed when the node raised what retries could not mend,",
        f"and `{RUN_CANCELLED}` ends it as cancelled when the node was broken off.",
        "",
    ]
    for graph in agent_graphs():
        made[f"graphs/{graph.name}.mmd"] = mermaid(graph)
        parts += [f"## {graph.name}", "", shown(graph), "", *(router_table(router) for router in graph.routers)]
    made["routers.md"] = "\n".join(parts)
    made["agents.md"] = "\n".join([_AGENTS, *map(agent_section, definitions().values())])
    return made


def main() -> int:
    """Writes the documents, or with --check names those that are stale; returns how many are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = []
    for name, text in documents().items():
        path = arguments.docs / name
        if arguments.check and (not path.exists() or path.read_text() != text):
            stale.append(str(path))
        elif not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.stderr.write("stale, run `make docs`: " + ", ".join(stale) + "\n")
    return len(stale)


if __name__ == "__main__":
    raise SystemExit(main())
