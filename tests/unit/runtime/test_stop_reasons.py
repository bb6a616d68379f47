"""No run ends short of its answer without a stop reason, by whichever rule of whichever agent it came to its end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from langgraph.errors import GraphRecursionError

from services.kit.identity.caller import Caller
from services.runtime.agents.registry import definitions
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import IN_PROGRESS, NOTHING_SPENT

STEPS = 12
SHORT = {"needs_review", "failed"}


def ending_with(graph: AgentGraph, entry: str, status: str) -> AgentGraph:
    """The graph with its own routers, from a node on, where every node only says how the run ends."""

    async def node(_state: Any, _context: Any) -> dict[str, Any]:
        return {"status": status}

    nodes = tuple(replace(each, run=node, failed=None, outcomes=None, inner=None) for each in graph.nodes)
    return replace(graph, entry=entry, nodes=nodes)


async def end_of(graph: AgentGraph, more: dict[str, Any]) -> dict[str, Any] | None:
    """The state at the end; None where the routers lead round and round, as nothing counts the rounds."""
    given = {"run_id": "r", "status": IN_PROGRESS, "iteration_count": 0, "spend": NOTHING_SPENT, "messages": [], **more}
    context = RunContext("r", "c", Caller("27"), 1, lambda _: "token")
    with suppress(GraphRecursionError):
        ended: dict[str, Any] = await graph.compile().ainvoke(given, {"recursion_limit": STEPS}, context=context)
        return ended
    return None


@pytest.mark.parametrize("status", sorted(SHORT))
@pytest.mark.parametrize("agent", definitions())
async def test_who_ends_short_of_an_answer_says_why(agent: str, status: str) -> None:
    outline = definitions()[agent].outline
    spent = {"budget": dict.fromkeys(("model_calls", "tool_calls", "tokens", "wall_time_s"), 1)}
    used = {"spend": {**NOTHING_SPENT, "model_calls": 1}}
    ends = [
        (node.name, more, ended)
        for node in outline.nodes
        for more in ({}, {**spent, **used}, {"iteration_count": 99}, {"screening": "allowed"})
        if (ended := await end_of(ending_with(outline, node.name, status), more))
    ]
    assert {ended["status"] for _, _, ended in ends} & SHORT
    silent = [(name, more) for name, more, ended in ends if ended["status"] in SHORT and not ended.get("stop_reason")]
    assert not silent
