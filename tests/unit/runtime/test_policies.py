"""What every agent's policy has."""

from __future__ import annotations

import pytest

from services.runtime.agents.registry import agent_graphs
from services.runtime.routing.graph import AgentGraph


@pytest.mark.parametrize("graph", agent_graphs(), ids=lambda graph: graph.name)
def test_the_limit_of_a_node_is_the_policys(graph: AgentGraph) -> None:
    assert {router.policy.node_timeout_s for router in graph.routers} == {graph.node_timeout_s}
    assert graph.node_timeout_s > 0
