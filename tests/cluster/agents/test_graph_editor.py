"""Goals for a graph, on a cluster."""

from __future__ import annotations

import pytest

from tests.cluster.agents.backing import Agents
from tests.e2e.test_graph_editor import *  # noqa: F403 - its tests, and the fixtures that it has for them
from tests.fixtures.stack import Deployed


@pytest.fixture  # type: ignore[no-redef] # it takes the place of the imported one
def offline(agents: Agents) -> Deployed:
    """The cluster's platform, instead of the one that the module would start."""
    return agents.deployed
