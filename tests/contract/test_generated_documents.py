"""Documents that are made from the decision tables: as checked in, they are what the code would make now."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.runtime.documentation import agent_graphs, documents

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = documents()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == DOCUMENTS[name], "stale; run `make docs`"


def test_there_is_no_graph_of_an_agent_that_is_gone() -> None:
    drawn = {f"graphs/{path.name}" for path in (DOCS / "graphs").glob("*.mmd")}
    assert drawn == {name for name in DOCUMENTS if name.startswith("graphs/")}


def test_every_rule_of_every_router_is_in_its_agents_drawing() -> None:
    for graph in agent_graphs():
        drawing = DOCUMENTS[f"graphs/{graph.name}.mmd"]
        for router in graph.routers:
            missing = [rule.name for rule in router.rules if rule.name not in drawing]
            assert not missing, f"{router.name} has rules that are not drawn: {missing}"
