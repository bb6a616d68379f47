"""What is asked of a graph is counted by how it ended, whatever database it is asked of."""

from __future__ import annotations

from typing import cast

import pytest
from prometheus_client import REGISTRY
from signalbox.v1 import tools_pb2

from services.graph_executor.elements import Change, NodeName
from services.graph_executor.errors import GraphAway, GraphFull
from services.graph_executor.measured_store import MeasuredStore
from services.graph_executor.store import GraphStore, Record
from services.kit.identity.caller import Caller
from services.kit.tools.effects import Overtaken, WriteCall
from services.kit.tools.executor import ToolRefused

CALL = WriteCall("run", "operation", 1, Caller("27", frozenset()), "add_node", "")


class Failing:
    """A store whose every call ends with an error, or well."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def node(self, _graph: str, _name: NodeName) -> None:
        if self._error is not None:
            raise self._error

    async def commit(self, _graph: str, _record: Record) -> None:
        if self._error is not None:
            raise self._error


def told(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"signalbox_graph_{name}", labels) or 0.0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (ToolRefused("query_failed", "no"), "refused"),
        (ToolRefused("timeout", "too long"), "timeout"),
        (GraphAway("gone"), "away"),
        (GraphFull("full"), "full"),
        (Overtaken(), "overtaken"),
        (RuntimeError("a fault of ours"), "failed"),
    ],
)
async def test_a_query_is_counted_by_how_it_ended(error: Exception | None, outcome: str) -> None:
    before = told("queries_total", kind="element", outcome=outcome)
    timed = told("query_duration_seconds_count", kind="element")
    store = MeasuredStore(cast(GraphStore, Failing(error)))
    if error is None:
        await store.node("g", NodeName("Ticket", "T-1"))
    else:
        with pytest.raises(type(error)):
            await store.node("g", NodeName("Ticket", "T-1"))
    assert told("queries_total", kind="element", outcome=outcome) == before + 1
    assert told("query_duration_seconds_count", kind="element") == timed + 1
    assert told("queries_active") == 0


async def test_what_is_taken_back_is_counted_apart_and_what_failed_not_at_all() -> None:
    def counts() -> tuple[float, float]:
        return told("changes_total", by="change"), told("changes_total", by="undo")

    made, undone = counts()
    response = tools_pb2.CallToolResponse()
    store = MeasuredStore(cast(GraphStore, Failing()))
    await store.commit("g", Record(CALL, response, Change()))
    await store.commit("g", Record(CALL, response, Change(), turns=("kept",)))
    with pytest.raises(Overtaken):
        await MeasuredStore(cast(GraphStore, Failing(Overtaken()))).commit("g", Record(CALL, response, Change()))
    assert counts() == (made + 1, undone + 1)
