"""What has to be extended with each agent and each service, where nothing else would notice that it was not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from buf.validate import validate_pb2
from signalbox.v1 import runs_pb2

from services.runtime.documentation import agent_graphs
from services.runtime.routing.graph import AgentGraph
from tests.contract.deploy.dependencies import pyproject
from tests.contract.deploy.helm import ROOT

GRAPHS = sorted(agent_graphs(), key=lambda graph: graph.name)
AGENTS = [graph.name for graph in GRAPHS]
SERVICES = {f"services.{path.parent.name}" for path in (ROOT / "services").glob("*/__main__.py")}
ROUTER_TESTS = ROOT / "tests" / "unit" / "runtime"


def test_every_agent_has_an_input_and_an_output() -> None:
    for message in (runs_pb2.RunInput, runs_pb2.RunOutput):
        assert sorted(field.name for field in message.DESCRIPTOR.oneofs_by_name["agent"].fields) == AGENTS


def test_runs_of_every_agent_can_be_listed() -> None:
    rules: Any = validate_pb2.field  # its stub knows no type of message that it extends
    options = runs_pb2.ListRunsRequest.DESCRIPTOR.fields_by_name["agent"].GetOptions()
    admitted = getattr(options.Extensions[rules].string, "in")
    assert sorted(admitted) == ["", *AGENTS]


@pytest.mark.parametrize("graph", GRAPHS, ids=AGENTS)
def test_every_rule_is_named_in_the_tests_of_its_routers(graph: AgentGraph) -> None:
    text = (ROUTER_TESTS / f"test_{graph.name}_routers.py").read_text(encoding="utf-8")
    for router in graph.routers:
        missing = [rule.name for rule in router.rules if not re.search(rf'"{rule.name}"', text)]
        assert not missing, f"{router.name}: no test names {missing}"


def test_no_service_is_left_out_of_the_import_contracts() -> None:
    independence, kit = pyproject()["tool"]["importlinter"]["contracts"]
    assert set(independence["modules"]) == SERVICES
    assert set(kit["forbidden_modules"]) == SERVICES
