"""Runs whose state has another shape than this release's: they go on, and what is not known here is not lost."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import grpc
from langgraph.graph import START, StateGraph
from pydantic import SecretStr
from signalbox.v1 import runs_pb2_grpc

from services.kit.wire.server import running
from services.runtime import server as runtime
from services.runtime.agents.incident_investigation.state import IncidentState
from services.runtime.engine.database import open_pool
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.routing.state import REPLACED
from tests.fixtures.scripted_model import Reply
from tests.integration.incidents.conftest import Bench
from tests.integration.incidents.test_investigations import LOOK, concludes

HYPOTHESES = [{"cause": "pool", "weight": 0.25}, {"cause": "disk", "weight": 0.75}]


class LaterState(IncidentState, total=False):
    """What a later release may keep."""

    hypotheses: Annotated[list[dict[str, Any]], REPLACED]
    reviewer: str


async def _nothing(_state: LaterState) -> dict[str, Any]:
    return {}


def _later(saver: RunSaver) -> Any:
    builder: Any = StateGraph(LaterState)
    for node in ("screen_incident", "agent"):
        builder.add_node(node, _nothing)
    builder.add_edge(START, "screen_incident")
    builder.add_edge("screen_incident", "agent")
    return builder.compile(checkpointer=saver)


async def test_a_run_of_a_later_shape_goes_on_and_keeps_what_is_not_known_here(bench: Bench, platform_dsn: str) -> None:
    settings = bench.settings.model_copy(update={"database_dsn": SecretStr(platform_dsn)})
    held, before = asyncio.Event(), bench.stub
    bench.script(concludes().after(held))
    try:
        async with (
            running("runtime", settings, runtime.build) as first,
            grpc.aio.insecure_channel(first.address) as channel,
        ):
            bench.stub = runs_pb2_grpc.RunServiceStub(channel)
            run = await bench.create(bench.incident())
            await bench.model.wait_for_requests(1, model="incident")
        # That replica has gone, before the model had answered. A replica of a later release had a turn:
        async with open_pool(platform_dsn, size=2) as pool:
            config: Any = {"configurable": {"thread_id": run.run_id}}
            later = _later(RunSaver(pool, make_serde()))
            await later.aupdate_state(
                config, {"hypotheses": HYPOTHESES, "reviewer": "somebody"}, as_node="screen_incident"
            )
            bench.script(LOOK, concludes())
            async with (
                running("runtime", settings, runtime.build) as second,
                grpc.aio.insecure_channel(second.address) as channel,
            ):
                bench.stub = runs_pb2_grpc.RunServiceStub(channel)
                ended = await bench.watch(run.run_id)
            values = (await later.aget_state(config)).values
    finally:
        held.set()
        bench.stub = before
    assert (ended.state, ended.rules) == ("SUCCEEDED", ["allowed", "tool_calls", "unvalidated", "confirmed"])
    assert (values["hypotheses"], values["reviewer"]) == (HYPOTHESES, "somebody")
    assert values["investigation_status"] == "completed"
    ids = [message.id for message in values["messages"]]
    assert len(set(ids)) == len(ids)


async def test_what_a_failed_run_leaves_in_its_state(bench: Bench, platform_dsn: str) -> None:
    settings = bench.settings.model_copy(update={"database_dsn": SecretStr(platform_dsn)})
    before = bench.stub
    bench.script(*[Reply.text("?")] * 3)
    try:
        async with (
            running("runtime", settings, runtime.build) as replica,
            grpc.aio.insecure_channel(replica.address) as channel,
        ):
            bench.stub = runs_pb2_grpc.RunServiceStub(channel)
            ended = await bench.investigate()
        async with open_pool(platform_dsn, size=2) as pool:
            later = _later(RunSaver(pool, make_serde()))
            values = (await later.aget_state({"configurable": {"thread_id": ended.run.run_id}})).values
    finally:
        bench.stub = before
    assert values["investigation_status"] == "failed"
    assert values["investigation_phase"] == "initial"
    assert values["error_message"] == ended.run.error
    assert values["start_time"] == values["started_at"]
    assert values["confidence_score"] == 0.0
