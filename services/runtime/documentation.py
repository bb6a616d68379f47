"""Router tables and graphs as documents: `python -m services.runtime.documentation [--check] docs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.runtime.agents.data_chat.graph import make_graph as make_data_chat
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.sast_investigation.graph import make_graph as make_sast_investigation
from services.runtime.agents.sast_investigation.nodes import SastInvestigationNodes
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import Research
from services.runtime.agents.sast_triage.graph import make_graph as make_sast_triage
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.routing.graph import NODE_FAILED, AgentGraph
from services.runtime.routing.table import END, Router, as_dict


class Unwired:
    """Stands for an agent's nodes where its graph is only drawn."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def node(*_: object) -> dict[str, Any]:
            raise RuntimeError(f"the node {name} is only drawn here")

        return node


def agent_graphs() -> list[AgentGraph]:
    """Returns the graph of every agent, with its default policy."""
    unwired: Any = Unwired()
    return [
        make_data_chat(unwired, DataChatPolicy()),
        make_sast_triage(unwired, SastTriagePolicy()),
        _sast_investigation(unwired, SastInvestigationPolicy()),
    ]


def _sast_investigation(unwired: Any, policy: SastInvestigationPolicy) -> AgentGraph:
    nodes = SastInvestigationNodes(
        research=Research(code=unwired, model=unwired, policy=policy, retries=0),
        analysis_model=unwired,
        evaluator=unwired,
        checklists=unwired,
        policy=policy,
    )
    return make_sast_investigation(nodes, policy)


def mermaid(graph: AgentGraph) -> str:
    """Returns the graph as LangGraph draws it."""
    return graph.compile().get_graph().draw_mermaid()


def router_table(router: Router[Any, Any]) -> str:
    """Returns a router's rules as a Markdown table, in the order in which they are tried."""
    lines = [f"### `{router.name}`", "", "| # | rule | goes to | changes |", "| --- | --- | --- | --- |"]
    for number, rule in enumerate(router.rules, start=1):
        changes = ", ".join(
            f"`{name}` = {value!r}" for name, value in (rule.update(rule.name) if rule.update else {}).items()
        )
        destination = " or ".join("end" if to == END else to for to in rule.destinations)
        lines.append(f"| {number} | `{rule.name}` | {destination} | {changes} |")
    limits = ", ".join(f"`{name}` {value}" for name, value in as_dict(router.policy).items())
    lines += ["", f"Limits ({type(router.policy).__name__}, version `{router.policy_version}`): {limits}.", ""]
    return "\n".join(lines)


def documents() -> dict[str, str]:
    """Returns every generated document by its path below docs."""
    made = {}
    parts = [
        "# Routers",
        "",
        "Generated from the decision tables by `make docs`. Rules are tried in order; the first that holds wins.",
        f"Before any table, `{NODE_FAILED}` ends the run as failed when the node raised what retries could not mend.",
        "",
    ]
    for graph in agent_graphs():
        made[f"graphs/{graph.name}.mmd"] = mermaid(graph)
        parts += [f"## {graph.name}", "", *(router_table(router) for router in graph.routers)]
    made["routers.md"] = "\n".join(parts)
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
