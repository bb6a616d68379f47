"""What is said of an undo that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from services.graph_executor.elements import Change, EdgeName, EdgeState, NodeChange, NodeName, NodeState
from services.graph_executor.planning import Planner
from services.graph_executor.policy import Access, GraphPolicy
from services.graph_executor.store import KeptChange
from services.kit.identity.caller import Caller
from services.kit.tools.executor import ToolRefused

POLICY = GraphPolicy.model_validate(
    {
        "version": 1,
        "labels": {"Ticket": {}, "Case": {}},
        "edges": {"ABOUT": {"from": ["Case", "Ticket"], "to": ["Ticket"]}},
        "roles": {"*": {"write": ["Ticket"]}, "legal": {"write": ["Case", "Ticket"]}},
    }
)
TICKET, OTHER, CASE = NodeName("Ticket", "T-1"), NodeName("Ticket", "T-2"), NodeName("Case", "a dismissal")
ADDED = NodeState(("Ticket",), {"key": "T-1"})
KEPT = KeptChange("r", "op", 1, "add_node", "27", Change(nodes=(NodeChange(TICKET, None, ADDED),)), False, False, ())


class _View:
    """A graph in which others have tied edges to the node since."""

    async def node(self, name: NodeName) -> NodeState | None:
        return ADDED if name == TICKET else None

    async def edge(self, _: EdgeName) -> EdgeState | None:
        return None

    async def edges_of(self, _: NodeName) -> dict[EdgeName, EdgeState]:
        return {EdgeName("ABOUT", end, TICKET): EdgeState({}) for end in (CASE, OTHER)}


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ((), "has edges since: ABOUT from Ticket 'T-2' to Ticket 'T-1', 1 that the caller may not read"),
        (("legal",), "ABOUT from Case 'a dismissal' to Ticket 'T-1', ABOUT from Ticket 'T-2' to Ticket 'T-1'"),
    ],
)
async def test_an_edge_whose_other_end_the_caller_may_not_read_is_not_named(roles: tuple[str, ...], said: str) -> None:
    view: Any = _View()
    planner = Planner(POLICY, Access(POLICY, Caller("27", frozenset(roles))), view)
    with pytest.raises(ToolRefused) as refused:
        await planner.undo(KEPT)
    assert refused.value.message.endswith(said)
