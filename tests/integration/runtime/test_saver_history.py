"""What is kept of a thread's history stays whole, whatever is removed around it."""

from __future__ import annotations

import asyncio
import gc
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from psycopg_pool import AsyncConnectionPool
from structlog.testing import capture_logs

from services.runtime.engine.claim import Claim
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.routing.state import append

THREAD: RunnableConfig = {"configurable": {"thread_id": "thread"}}
Pool = AsyncConnectionPool[Any]


def merge(entries: dict[str, str] | None, more: dict[str, str]) -> dict[str, str]:
    """Adds to a map."""
    return {**(entries or {}), **more}


class State(TypedDict, total=False):
    """Channels that grow."""

    messages: Annotated[list[AnyMessage], append]
    code: Annotated[dict[str, str], merge]
    left: int


async def _step(state: State) -> State:
    number = len(state["messages"])
    return {
        "left": state["left"] - 1,
        "messages": [AIMessage(f"answer {number} " * 10, id=f"m{number}")],
        "code": {f"file {number}": f"text {number}"},
    }


@pytest.fixture
async def saver(platform_pool: Pool) -> RunSaver:
    return RunSaver(platform_pool, make_serde())


@pytest.fixture
def graph(saver: RunSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("step", _step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["left"] else END, ["step", END])
    return builder.compile(checkpointer=saver)


async def run(graph: Any, run_id: str, question: str, place: RunnableConfig = THREAD) -> None:
    """Goes on in the thread, from its last checkpoint or the one that place names."""
    given = {"messages": [HumanMessage(question, id=question)], "code": {question: "asked"}, "left": 6}
    await graph.ainvoke(given, {**place, "metadata": {"run_id": run_id}}, durability="sync")


async def history(graph: Any) -> dict[str, dict[str, Any]]:
    """Every checkpoint's values by its id."""
    return {
        found.config["configurable"]["checkpoint_id"]: found.values async for found in graph.aget_state_history(THREAD)
    }


async def three_runs(graph: Any) -> dict[str, dict[str, Any]]:
    """Two runs one after the other, and one that forks off in the middle of the first."""
    await run(graph, "first", "first question")
    middle = list(await history(graph))[4]
    await run(graph, "second", "second question")
    await run(graph, "fork", "another question", {"configurable": {"thread_id": "thread", "checkpoint_id": middle}})
    return await history(graph)


@pytest.mark.parametrize("gone", [["first"], ["second"], ["fork"], ["first", "second"], ["first", "fork"]])
async def test_the_checkpoints_of_other_runs_read_as_before(saver: RunSaver, graph: Any, gone: list[str]) -> None:
    before = await three_runs(graph)
    await saver.adelete_for_runs(gone)
    after = await history(graph)
    assert 8 <= len(after) < len(before)
    assert after == {checkpoint_id: before[checkpoint_id] for checkpoint_id in after}
    assert not [found async for found in saver.alist(THREAD) if found.metadata["run_id"] in gone]


async def test_the_last_checkpoint_reads_as_before_and_can_be_gone_on_from(saver: RunSaver, graph: Any) -> None:
    before = await three_runs(graph)
    last = max(before)
    await saver.aprune(["thread"])
    assert await history(graph) == {last: before[last]}
    await run(graph, "next", "next question")
    values = (await graph.aget_state(THREAD)).values
    assert values["messages"][: len(before[last]["messages"])] == before[last]["messages"]
    assert len(values["messages"]) == len(before[last]["messages"]) + 7


async def test_writes_that_come_too_late_are_nobodys_error(platform_pool: Pool) -> None:
    met: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: met.append(context))
    with capture_logs() as logs:
        saver = RunSaver(platform_pool, make_serde(), claim=Claim("00000000-0000-7000-8000-000000000001", 1, None))
        place: RunnableConfig = {"configurable": {"thread_id": "thread", "checkpoint_ns": "", "checkpoint_id": "1"}}
        await saver.aput_writes(place, [("left", 1)], "task")
        async with asyncio.timeout(60):
            while not met and not logs:
                await asyncio.sleep(0.01)
                gc.collect()  # when asyncio tells of what nobody looked at
    assert (met, [line["event"] for line in logs]) == ([], ["writes not saved ahead of their step"])


async def test_a_step_stores_what_it_added_also_in_a_process_that_did_not_begin_the_run(
    platform_pool: Pool, graph: Any
) -> None:
    for number in range(8):
        await run(graph, f"run {number}", f"question {number}")
    elsewhere = graph.copy({"checkpointer": RunSaver(platform_pool, make_serde())})
    await run(elsewhere, "elsewhere", "last question")
    whole = sum(len(message.text) for message in (await elsewhere.aget_state(THREAD)).values["messages"])
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT max(length(changes)) FROM platform.checkpoints")
        [longest] = await cursor.fetchone() or (0,)
    assert longest < whole / 2
