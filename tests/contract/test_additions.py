"""What has to be extended with each agent and each service, where nothing else would notice that it was not."""

from __future__ import annotations

import re

import pytest
from signalbox.v1 import runs_pb2

from services.runtime.agents.registry import agent_graphs
from services.runtime.routing.graph import AgentGraph
from tests.contract.deploy.dependencies import pyproject
from tests.contract.deploy.helm import ROOT

GRAPHS = sorted(agent_graphs(), key=lambda graph: graph.name)
AGENTS = [graph.name for graph in GRAPHS]
# The console has contracts of its own: the command starts it, too.
SERVICES = {f"services.{path.parent.name}" for path in (ROOT / "services").glob("*/__main__.py")} - {"services.console"}
ROUTER_TESTS = ROOT / "tests" / "unit" / "runtime"


def test_every_agent_has_an_input_and_an_output() -> None:
    for message in (runs_pb2.RunInput, runs_pb2.RunOutput):
        fields = {field.name for field in message.DESCRIPTOR.oneofs_by_name["agent"].fields}
        # Graphs that are brought share one field, which names the agent.
        assert sorted(fields - {"graph"}) == AGENTS


@pytest.mark.parametrize("graph", GRAPHS, ids=AGENTS)
def test_every_rule_is_named_in_the_tests_of_its_routers(graph: AgentGraph) -> None:
    text = (ROUTER_TESTS / f"test_{graph.name}_routers.py").read_text(encoding="utf-8")
    for router in graph.routers:
        missing = [rule.name for rule in router.rules if not re.search(rf'"{rule.name}"', text)]
        assert not missing, f"{router.name}: no test names {missing}"


def test_no_service_is_left_out_of_the_import_contracts() -> None:
    contracts = {each["name"]: each for each in pyproject()["tool"]["importlinter"]["contracts"]}
    assert set(contracts["Services never import one another"]["modules"]) == SERVICES
    assert set(contracts["The kit knows no service"]["forbidden_modules"]) == SERVICES
    [apart] = [each for name, each in contracts.items() if name.startswith("The local platform starts services")]
    assert set(apart["forbidden_modules"]) == SERVICES
    console = contracts["The console knows the public contract and the kit alone"]
    assert set(console["forbidden_modules"]) == SERVICES | {"services.local", "services.findings"}
