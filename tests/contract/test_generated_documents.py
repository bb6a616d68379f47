"""Documents that are made from the decision tables: as checked in, they are what the code would make now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.runtime.agents.registry import agent_graphs
from services.runtime.commands.documentation import documents
from tests.contract import decisions_index, reference_pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """What the code would make now: all agents are proved for it, which no worker does that does not run this."""
    return documents()


def test_the_documents_are_up_to_date(made: dict[str, str]) -> None:
    stale = [name for name in made if (DOCS / name).read_text(encoding="utf-8") != made[name]]
    assert not stale, "run `make docs`"


def test_the_references_of_metrics_and_errors_are_up_to_date() -> None:
    stale = "stale; run `make docs`"
    assert reference_pages.METRICS.read_text(encoding="utf-8") == reference_pages.render_metrics(), stale
    assert reference_pages.ERRORS.read_text(encoding="utf-8") == reference_pages.render_errors(), stale


def test_every_error_has_a_meaning_and_a_code_with_advice() -> None:
    for reason, (leaf, _) in reference_pages.errors().items():
        assert leaf.__doc__, f"{reason} has no docstring"
        assert leaf.code.name in reference_pages.WHAT_TO_DO


def test_every_metric_of_the_services_says_what_it_is_and_who_tells_it() -> None:
    for name, (metric, users) in reference_pages.metrics().items():
        assert name.startswith("signalbox_")
        assert users, f"no service tells {name}"
        [told] = metric.describe()
        assert told.documentation.endswith("."), name


def test_there_is_no_graph_of_an_agent_that_is_gone(made: dict[str, str]) -> None:
    drawn = {f"graphs/{path.name}" for path in (DOCS / "graphs").glob("*.mmd")}
    assert drawn == {name for name in made if name.startswith("graphs/")}


def test_every_rule_of_every_router_is_in_its_agents_drawing(made: dict[str, str]) -> None:
    for graph in agent_graphs():
        drawing = made[f"graphs/{graph.name}.mmd"]
        for router in graph.routers:
            missing = [rule.name for rule in router.rules if rule.name not in drawing]
            assert not missing, f"{router.name} has rules that are not drawn: {missing}"


def test_the_index_has_every_decision_with_its_status() -> None:
    stale = "stale: python -m tests.contract.decisions_index"
    assert decisions_index.INDEX.read_text(encoding="utf-8") == decisions_index.render_index(), stale


def test_decisions_that_supersede_one_another_both_say_so() -> None:
    superseded = {
        (int(by), decision.name)
        for decision in decisions_index.decisions()
        for by in re.findall(r"[Ss]uperseded by \[ADR (\d+)\]", decision.read_text(encoding="utf-8"))
    }
    supersede = {
        (int(decision.name[:4]), name)
        for decision in decisions_index.decisions()
        for said in re.findall(r"^Supersedes (.*)$", decision.read_text(encoding="utf-8"), re.MULTILINE)
        for name in re.findall(r"\((\d{4}-[a-z-]+\.md)\)", said)
    }
    assert supersede <= superseded
