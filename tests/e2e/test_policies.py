"""Limits that operators set: replicas with different files, and runs that move between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import agents_pb2, agents_pb2_grpc, caller_pb2, policy_pb2, runs_pb2

from services.kit.identity.bearer import bearer_metadata
from services.local.processes import ServiceProcess
from tests.fixtures.client import question
from tests.fixtures.otlp import Span, Trace, TraceCollector
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.prompts import write_prompts
from tests.fixtures.refusals import refusal
from tests.fixtures.scrape import scrape
from tests.fixtures.script import Script, examples
from tests.fixtures.stack import AGENT_MODEL, Deployed, Platform, World, platform

LIMITS = {"runtime": 4, "runtime-2": 2}
QUESTION = "How many devices do I have?"
LOOK = examples(QUESTION)


@pytest_asyncio.fixture(loop_scope="session")
async def collector() -> AsyncIterator[TraceCollector]:
    """What the replicas' spans are sent to."""
    async with TraceCollector() as collecting:
        yield collecting


@pytest_asyncio.fixture(loop_scope="session")
async def parted(harbour: World, script: Script, collector: TraceCollector, tmp_path: Path) -> AsyncIterator[Platform]:
    """Two replicas of the runtime that were given different files, and different prompts."""
    env = {}
    for replica, limit in LIMITS.items():
        file = tmp_path / f"{replica}.yaml"
        file.write_text(f"data_chat: {{max_iterations: {limit}}}\n")
        prompts = tmp_path / f"prompts of {replica}"
        prompts.mkdir()
        write_prompts(prompts, ["services.runtime.agents.data_chat"], partial("{} says:\n{}".format, replica))
        env[replica] = {"SIGNALBOX_POLICY_FILE": str(file), "SIGNALBOX_PROMPTS_DIR": str(prompts)}
    traced = {"otlp_endpoint": collector.endpoint}
    async with platform(harbour, model=script.model, runtime_replicas=2, service_env=env, **traced) as running:
        yield running
        await running.verify_ledger()


async def busy(running: Platform) -> ServiceProcess:
    """The replica that executes a run."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            for replica in running.stack.runtimes:
                if (await scrape(replica.ready.metrics)).value("signalbox_runs_active", {}):
                    return replica
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("leaves", ["killed", "drained"])
async def test_a_run_goes_on_under_its_own_limits_and_in_its_own_trace(
    parted: Platform, script: Script, collector: TraceCollector, leaves: str
) -> None:
    caller = parted.caller("27")
    gate = asyncio.Event()
    # It asks for examples again and again, and only a limit ends that.
    script.agent(LOOK, LOOK.after(gate), *[LOOK] * 6)
    run = await caller.create(question(QUESTION))
    await script.model.wait_for_requests(2, model=AGENT_MODEL)
    replica = await busy(parted)
    limit = LIMITS[replica.name]
    if leaves == "killed":
        await replica.kill()
    else:
        await replica.stop()
    gate.set()
    ended = await caller.wait(run.run_id)
    assert ended.run.epoch > 1
    assert ended.run.stop_reason == "iteration_limit"
    stopped = [decision for decision in ended.decisions if decision.rule == "iteration_limit"]
    assert [decision.grounds["max_iterations"] for decision in stopped] == [limit]
    assert len({decision.policy_version for decision in ended.decisions}) == 1
    policy = (await caller.get(run.run_id)).policy
    made_with = [
        call.prompts for each in ended.decisions for call in each.calls if call.service == call.kind == "model"
    ]
    assert policy.prompts == made_with[0]
    assert len(set(made_with)) == 2, "it went on at a replica with other prompts"
    # History is sent as it was, its system message included.
    assert {request.messages[0]["content"].partition(" says:")[0] for request in script.agent_requests} == {
        replica.name
    }
    pinned = {each.name: each for each in policy.limits}
    assert pinned["max_iterations"].value.number_value == limit
    assert pinned["max_iterations"].origin == policy_pb2.LIMIT_ORIGIN_FILE
    assert pinned["top_k"].origin == policy_pb2.LIMIT_ORIGIN_DEFAULT

    def claims(trace: Trace) -> dict[int, Span]:
        return {span.attributes["signalbox.epoch"]: span for span in trace.named("internal invoke_agent data_chat")}

    trace = await collector.trace(ended.run.trace_id, until=lambda trace: ended.run.epoch in claims(trace))
    # What a replica had not sent yet when it was killed is lost; where the run came from, all of them say alike.
    assert ended.run.epoch in claims(trace)
    assert len({span.parent_id for span in claims(trace).values()}) == 1
    assert stopped[0].span_id in trace.spans


async def test_agents_are_listed_with_the_limits_in_force(signalbox: Deployed) -> None:
    stub = agents_pb2_grpc.AgentServiceStub(signalbox.channel)
    metadata = (bearer_metadata(signalbox.token("27")),)
    listed = await stub.ListAgents(agents_pb2.ListAgentsRequest(), metadata=metadata)
    agents = {agent.name: agent for agent in listed.agents}
    assert agents["data_chat"].input_type == "signalbox.v1.DataChatInput"
    assert "execute_db_query" in agents["data_chat"].tools
    limits = {each.name: each.value.number_value for each in agents["data_chat"].policy.limits}
    assert limits["max_iterations"] == 3
    budget = {each.name: each.value.number_value for each in agents["data_chat"].policy.budget}
    assert budget["model_calls"] == 12


async def test_a_budget_says_what_the_caller_asked_for(signalbox: Deployed, script: Script) -> None:
    caller = signalbox.caller("27")
    script.agent_always(LOOK)
    asked = await caller.ask(QUESTION, budget=caller_pb2.Budget(model_calls=9))
    budget = {each.name: each for each in (await caller.get(asked.run.run_id)).policy.budget}
    assert (budget["model_calls"].value.number_value, budget["model_calls"].origin) == (
        9,
        policy_pb2.LIMIT_ORIGIN_CALLER,
    )
    assert budget["tokens"].origin == policy_pb2.LIMIT_ORIGIN_DEFAULT


async def test_runs_are_listed_of_any_agent_that_there_is_and_of_no_other(signalbox: Deployed) -> None:
    caller = signalbox.caller("27")
    [page] = await caller.run_pages(runs_pb2.ListRunsRequest(agent="sast_triage"))
    assert list(page) == []  # it is not offered here, and may have been
    detail = await refusal(caller.run_pages(runs_pb2.ListRunsRequest(agent="poet")))
    assert (detail.code, detail.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    [violation] = detail.violations
    assert (violation.field, violation.description) == (
        "agent",
        "one of: data_chat, graph_editor, incident_investigation, sast_investigation, sast_triage",
    )
