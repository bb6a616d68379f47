"""Threads and maintenance through the gateway, as the command uses them."""

from __future__ import annotations

from uuid import uuid4

import grpc
import pytest
from google.protobuf import json_format
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc, runs_pb2, threads_pb2, threads_pb2_grpc

from services.kit.identity.bearer import bearer_metadata
from tests.fixtures.client import RunClient
from tests.fixtures.ledger import check_ledger
from tests.fixtures.refusals import refusal
from tests.fixtures.script import ANSWER, Script, query
from tests.fixtures.stack import Deployed

COUNT = "SELECT count(*) AS devices FROM devices"
ROUTER = "data_chat.route_after_agent"


@pytest.fixture
def caller(signalbox: Deployed) -> RunClient:
    return signalbox.caller("27")


@pytest.fixture
def thread_id() -> str:
    return f"thread-{uuid4()}"


@pytest.fixture
def threads(signalbox: Deployed) -> threads_pb2_grpc.ThreadServiceAsyncStub:
    return threads_pb2_grpc.ThreadServiceStub(signalbox.channel)


@pytest.fixture
def maintenance(signalbox: Deployed) -> maintenance_pb2_grpc.MaintenanceServiceAsyncStub:
    return maintenance_pb2_grpc.MaintenanceServiceStub(signalbox.channel)


async def test_a_thread_is_read_back_forked_continued_and_deleted(
    caller: RunClient,
    script: Script,
    threads: threads_pb2_grpc.ThreadServiceAsyncStub,
    thread_id: str,
) -> None:
    script.agent(query(COUNT), query(COUNT))
    asked = await caller.ask("How many devices do I have?", thread_id=thread_id)
    found = await threads.GetThread(threads_pb2.GetThreadRequest(thread_id=thread_id), metadata=caller.metadata)
    assert [run.run_id for run in found.runs] == [asked.run.run_id]

    request = threads_pb2.GetThreadStateRequest(thread_id=thread_id, run_id=asked.run.run_id)
    latest = await threads.GetThreadState(request, metadata=caller.metadata)
    assert json_format.MessageToDict(latest.state.values)["answer"] == ANSWER
    request.checkpoint_id = asked.decision("allowed").checkpoint_id
    screened = await threads.GetThreadState(request, metadata=caller.metadata)
    assert list(screened.state.next_nodes) == ["agent"]
    assert "answer" not in screened.state.values

    fork = threads_pb2.ForkThreadRequest(
        thread_id=thread_id, run_id=asked.run.run_id, checkpoint_id=request.checkpoint_id
    )
    forked = await threads.ForkThread(fork, metadata=caller.metadata)
    again = await caller.wait(forked.run.run_id, before=[asked.decision("allowed")])
    assert (again.state, again.values) == ("SUCCEEDED", asked.values)
    assert [decision.node for decision in again.decisions] == ["agent", "tools"]
    assert script.asked.count("guard") == 1, "what was screened before the checkpoint is not screened again"

    delete = threads_pb2.DeleteThreadRequest(thread_id=thread_id)
    gone = await threads.DeleteThread(delete, metadata=caller.metadata)
    assert (gone.run_count, gone.decision_count) == (1, len(asked.decisions))
    assert (await refusal(caller.get(asked.run.run_id))).code is grpc.StatusCode.NOT_FOUND
    assert (await caller.get(again.run.run_id)).state == runs_pb2.RUN_STATE_SUCCEEDED


async def test_operators_see_what_is_due_and_what_other_limits_would_have_done(
    signalbox: Deployed,
    caller: RunClient,
    script: Script,
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
) -> None:
    script.agent(query("SELECT nothing FROM nowhere"), query(COUNT))
    asked = await caller.ask("How many devices do I have?")
    check_ledger(asked)
    operator = (bearer_metadata(signalbox.token("ops", ["operator"])),)
    dry = await maintenance.Prune(maintenance_pb2.PruneRequest(dry_run=True), metadata=operator)
    assert not dry.more

    request = maintenance_pb2.ReplayDecisionsRequest(
        router=ROUTER, limits={"max_iterations": "1"}, max_divergences=1000
    )
    request.since_time.CopyFrom(asked.run.create_time)
    replayed = await maintenance.ReplayDecisions(request, metadata=operator)
    [divergence] = [each for each in replayed.divergences if each.run_id == asked.run.run_id]
    assert (divergence.rule, divergence.other_rule) == ("tool_calls", "iteration_limit")
    later = [call for step in asked.decisions if step.sequence > divergence.sequence for call in step.calls]
    assert divergence.spent_after.model_calls >= sum(call.kind == "model" for call in later) > 0

    detail = await refusal(maintenance.Prune(maintenance_pb2.PruneRequest(), metadata=caller.metadata))
    assert (detail.code, detail.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
