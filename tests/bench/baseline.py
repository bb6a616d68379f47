"""The baseline: the same graph in one process, with stock parts and nothing around them.

It reads `{"runs": N, "concurrency": C}` lines and answers each with `{"wall_s": …, "took_s": […]}`; its CPU is measured
from outside. With `"thread": ID` the runs go on in a thread, whose messages stay in its state. `"lean": true` asks
models by the platform's client instead of ChatOpenAI, `"durability"` is LangGraph's, `sync` unless given.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict

import psycopg
import uvloop
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import SecretStr

from services.kit.models.completions import Completions, Endpoint
from services.runtime.calls.lenient_client import make_client
from services.sql_executor.examples import ExampleStore
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, QUESTION

POOL_SIZE = 16
OBJECT = {"type": "object", "additionalProperties": False}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name.replace("_", " "),
            "parameters": {**OBJECT, "properties": {argument: {"type": "string"}}, "required": [argument]},
        },
    }
    for name, argument in (("get_few_shot_examples", "question"), ("execute_db_query", "query"))
]


class State(TypedDict, total=False):
    """What the bare graph keeps."""

    question: str
    allowed: bool
    messages: Annotated[list[AnyMessage], add_messages]
    result: str
    answer: str


class Bare:
    """The nodes."""

    def __init__(self, model: Callable[[str], ChatOpenAI], store: ExampleStore, pool: AsyncConnectionPool[Any]) -> None:
        self._guard, self._format = model(GUARD_MODEL), model(FORMAT_MODEL)
        self._agent = model(AGENT_MODEL).bind_tools(TOOLS)
        self._store, self._pool = store, pool

    async def screen(self, state: State) -> State:
        """Asks the guard's model."""
        answer = await self._guard.ainvoke([SystemMessage("Answer ALLOW or BLOCK."), HumanMessage(state["question"])])
        return {"allowed": answer.text == "ALLOW"}

    async def agent(self, state: State) -> State:
        """Asks the agent's model."""
        added: list[AnyMessage] = []
        if not state.get("messages"):
            found = await self._store.nearest(state["question"])
            examples = "\n\n".join(f"Question: {e.question}\nSQL: {e.sql}" for e in found.examples[:2])
            added = [
                SystemMessage(f"You answer questions about a database.\n{examples}"),
                HumanMessage(state["question"]),
            ]
        return {"messages": [*added, await self._agent.ainvoke([*state.get("messages", []), *added])]}

    async def tools(self, state: State) -> State:
        """Runs the tool that the model asked for."""
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        call = last.tool_calls[0]
        if call["name"] == "get_few_shot_examples":
            found = await self._store.nearest(call["args"]["question"])
            text = "\n\n".join(f"Question: {e.question}\nSQL: {e.sql}" for e in found.examples)
            return {"messages": [ToolMessage(text, tool_call_id=call["id"])]}
        async with self._pool.connection() as connection:
            cursor = await connection.execute(call["args"]["query"])
            text = str(await cursor.fetchall())
        return {"messages": [ToolMessage(text, name=call["name"], tool_call_id=call["id"])], "result": text}

    async def format(self, state: State) -> State:
        """Words the answer."""
        answer = await self._format.ainvoke([HumanMessage(f"{state['question']}\n{state['result']}")])
        return {"answer": answer.text}


def compile_graph(bare: Bare, saver: AsyncPostgresSaver) -> Any:
    """Builds the graph with conditional edges."""
    builder = StateGraph(State)
    for name, node in (("screen", bare.screen), ("agent", bare.agent), ("tools", bare.tools), ("format", bare.format)):
        builder.add_node(name, node)
    builder.add_edge(START, "screen")
    builder.add_conditional_edges("screen", lambda s: "agent" if s["allowed"] else END, ["agent", END])
    builder.add_conditional_edges(
        "agent", lambda s: "tools" if s["messages"][-1].tool_calls else "format", ["tools", "format"]
    )
    builder.add_conditional_edges(
        "tools", lambda s: "format" if s["messages"][-1].name == "execute_db_query" else "agent", ["format", "agent"]
    )
    builder.add_edge("format", END)
    return builder.compile(checkpointer=saver)


async def one_run(graph: Any, slots: asyncio.Semaphore, thread_id: str, *, known: bool, durability: str) -> float:
    """One question, and what it took in seconds; in a thread that is known it follows what was said before."""
    async with slots:
        start = time.perf_counter()
        config = {"configurable": {"thread_id": thread_id}}
        asked = {"messages": [HumanMessage(QUESTION)]} if known else {}
        state = await graph.ainvoke({"question": QUESTION, **asked}, config, durability=durability)
        assert state["answer"], state
        return time.perf_counter() - start


async def serve(base_url: str, platform_dsn: str, world_dsn: str) -> None:
    """Does the batches that standard input asks for."""
    options = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
    async with (
        AsyncConnectionPool(platform_dsn, min_size=2, max_size=POOL_SIZE, kwargs=options) as checkpoints,
        AsyncConnectionPool(world_dsn, min_size=2, max_size=8, kwargs={"autocommit": True}) as world,
        AsyncConnectionPool(world_dsn, min_size=2, max_size=8, kwargs={"autocommit": True}) as examples,
        AsyncExitStack() as closing,
    ):
        completions = Completions(Endpoint(base_url, "none", 60, 2))
        closing.push_async_callback(completions.close)
        saver = AsyncPostgresSaver(checkpoints)  # type: ignore[arg-type]

        def stock(name: str) -> ChatOpenAI:
            return ChatOpenAI(
                model=name, base_url=base_url, api_key=SecretStr("none"), temperature=0, use_responses_api=False
            )

        def lean(name: str) -> ChatOpenAI:
            return make_client(completions, name)

        graphs = [compile_graph(Bare(model, ExampleStore(examples), world), saver) for model in (stock, lean)]
        loop = asyncio.get_running_loop()
        threads: set[str] = set()
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            slots = asyncio.Semaphore(asked["concurrency"])
            names = [asked.get("thread") or uuid.uuid4().hex for _ in range(asked["runs"])]
            graph, durability = graphs[asked.get("lean", False)], asked.get("durability", "sync")
            start = loop.time()
            took_s = await asyncio.gather(
                *(one_run(graph, slots, name, known=name in threads, durability=durability) for name in names)
            )
            threads |= {asked["thread"]} if "thread" in asked else set()
            sys.stdout.write(json.dumps({"wall_s": loop.time() - start, "took_s": took_s}) + "\n")
            sys.stdout.flush()


def prepare(platform_dsn: str) -> None:
    """Makes the stock saver's tables."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with psycopg.connect(platform_dsn, autocommit=True, row_factory=dict_row) as connection:
        PostgresSaver(connection).setup()


if __name__ == "__main__":
    prepare(sys.argv[2])
    uvloop.run(serve(*sys.argv[1:4]))
