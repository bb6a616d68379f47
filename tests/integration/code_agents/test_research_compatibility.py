"""Runs in the middle of research, against the graphs of a newer release."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

import pytest
from langgraph.graph import START, StateGraph
from psycopg_pool import AsyncConnectionPool
from typing_extensions import TypedDict

from services.runtime.agents.registry import agent_graphs
from services.runtime.agents.sast_investigation.task import ResearchState
from services.runtime.engine.compatibility import incompatible_runs
from services.runtime.engine.serde import make_serde
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.inner import InnerGraph
from services.runtime.routing.state import append
from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import MakeBench

Pool = AsyncConnectionPool[Any]
READ = Reply.tool_call("read_file", {"path": "app/db.py"})
[INVESTIGATION] = [graph for graph in agent_graphs() if graph.name == "sast_investigation"]


class FetchedFile(TypedDict):
    """What the newer release makes of the name of a file."""

    path: str


class NewState(ResearchState, total=False):
    """Files are records now."""

    fetched_files: Annotated[list[FetchedFile], append]  # type: ignore[misc]


def with_inner(state: type, *nodes: str) -> AgentGraph:
    """The agent with another graph inside its node `research`."""
    builder: StateGraph[Any] = StateGraph(state)
    for node in nodes:
        builder.add_node(node, lambda _: {})
    builder.add_edge(START, nodes[0])
    inner = InnerGraph.of(builder.compile())
    newer = [replace(node, inner=inner) if node.name == "research" else node for node in INVESTIGATION.nodes]
    return replace(INVESTIGATION, nodes=tuple(newer))


async def problems(pool: Pool, graph: AgentGraph) -> tuple[str, ...]:
    """What is wrong with the only unfinished run."""
    [found] = [each async for each in incompatible_runs(pool, make_serde(), {graph.name: graph}, {})]
    return found.problems if found else ()


@pytest.fixture
async def researching(make_bench: MakeBench) -> AsyncIterator[None]:
    """A run whose research has read a file, and waits for its model once more."""
    async with make_bench() as bench, bench.runtime():
        never = asyncio.Event()
        bench.model.script("research", [READ, READ.after(never)])
        await bench.create("sast_investigation")
        await bench.model.wait_for_requests(2, model="research")
        yield


@pytest.mark.usefixtures("researching")
async def test_the_release_that_wrote_a_run_can_go_on_with_its_research(platform_pool: Pool) -> None:
    assert await problems(platform_pool, INVESTIGATION) == ()


@pytest.mark.usefixtures("researching")
async def test_a_node_of_research_that_is_gone(platform_pool: Pool) -> None:
    newer = with_inner(ResearchState, "agent", "tools")
    assert await problems(platform_pool, newer) == ("inside node 'research': it waits for node 'model', which is gone",)


@pytest.mark.usefixtures("researching")
async def test_a_field_of_research_that_no_longer_parses(platform_pool: Pool) -> None:
    newer = with_inner(NewState, "model", "tools")
    expected = "inside node 'research': fetched_files[0] is str, not FetchedFile"
    assert await problems(platform_pool, newer) == (expected,)


async def test_research_that_is_over_is_no_obstacle(make_bench: MakeBench, platform_pool: Pool) -> None:
    async with make_bench() as bench, bench.runtime():
        never = asyncio.Event()
        bench.model.script("research", [READ, Reply.text("The code bank has it all.")])
        bench.model.script("analysis", [Reply.text("Hm.").after(never)])
        await bench.create("sast_investigation")
        await bench.model.wait_for_requests(1, model="analysis")
        assert await problems(platform_pool, with_inner(NewState, "agent")) == ()
