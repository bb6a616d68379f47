"""Changes as data: what was before and after, and the way back."""

from __future__ import annotations

import pytest

from services.graph_executor.elements import (
    Change,
    EdgeChange,
    EdgeName,
    EdgeState,
    NodeChange,
    NodeName,
    NodeState,
    fits_key,
)

NODE = NodeName("Ticket", "T-1")
EDGE = EdgeName("BLOCKS", NODE, NodeName("Ticket", "T-2"))
CHANGE = Change(
    (NodeChange(NODE, NodeState(("Ticket",), {"key": "T-1", "points": 1}), NodeState(("Ticket",), {"key": "T-1"})),),
    (EdgeChange(EDGE, None, EdgeState({"since": 2.5})),),
)


def test_a_change_survives_the_way_through_data() -> None:
    assert Change.from_data(CHANGE.to_data()) == CHANGE
    assert Change.from_data(CHANGE.inverse().to_data()).inverse() == CHANGE


def test_a_revision_is_of_what_is_held() -> None:
    def revision(**properties: object) -> str:
        return NodeState(("Ticket",), properties).revision

    assert revision(a=1, b=2) == revision(b=2, a=1)
    assert len({revision(a=1), revision(a=True), revision(a="1"), revision(a=[1]), revision(), revision(b=1)}) == 6
    assert NodeState(("User",), {}).revision != NodeState(("Ticket",), {}).revision


@pytest.mark.parametrize("key", ["a", "a b", "TICKET-1", "ключ", "'\"`\\$", "\u00a0x\u00a0".strip(), "k" * 256])
def test_keys_that_fit(key: str) -> None:
    assert fits_key(key)


@pytest.mark.parametrize("key", ["", " ", " a", "a ", "a\t", "\na", "a\x01b", "a\x00", "a\r", "\x0b", "k" * 257])
def test_keys_that_would_end_the_server(key: str) -> None:
    assert not fits_key(key)
