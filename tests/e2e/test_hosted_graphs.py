"""Hosted graphs on a whole platform: they bring what LangGraph alone brings, whichever replicas die on the way."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict, MessageToJson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic_core import to_jsonable_python
from rich.console import Console
from signalbox.v1 import agents_pb2, agents_pb2_grpc, cases_pb2, hosted_pb2, runs_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.pin import case_of
from services.cli.questions import resume
from services.cli.replay import replay_case
from services.cli.speech import Speech
from services.cli.terminal import Terminal
from services.kit.telemetry.names import ROLE_OPERATOR
from services.local.processes import ServiceProcess
from services.runtime.cases.__main__ import in_words, replay
from services.runtime.cases.settings import CaseSettings
from tests.e2e.test_answering import signalbox
from tests.e2e.test_console import inside
from tests.fixtures.client import CALL_TIMEOUT_S, RunClient
from tests.fixtures.hosted import FOLDER, graph_alone
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.scrape import scrape
from tests.fixtures.stack import Platform, World, platform

# `make chaos` has more of both.
RUNS = int(os.environ.get("SIGNALBOX_CHAOS_HOSTED_RUNS", "8"))
KILLS = int(os.environ.get("SIGNALBOX_CHAOS_HOSTED_KILLS", "3"))
# Under way together; with the two others fewer than the streams that a caller may have open.
AT_ONCE = 90
GRACE_S = 30.0
UNTIL = 6
# Under way for as long as replicas die.
COUNTED = 100
TURNS = 15


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hosting(harbour: World) -> AsyncIterator[Platform]:
    """A platform of two replicas that offer the graphs of a folder."""
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER), "SIGNALBOX_SWEEP_INTERVAL_S": "0.2"}}
    async with platform(harbour, service_env=env, runtime_replicas=2) as running:
        yield running


def asking(agent: str, **given: Any) -> runs_pb2.CreateRunRequest:
    asked = hosted_pb2.GraphInput(agent=agent)
    asked.input.update(given)
    return runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph=asked))


async def followed(client: RunClient, run_id: str) -> list[runs_pb2.RunEvent]:
    """A run's events to its end, across replicas that die."""
    events: list[runs_pb2.RunEvent] = []
    while not events or not events[-1].HasField("run_ended"):
        try:
            async for event in client.watch(run_id, events[-1].sequence if events else 0):
                events.append(event)  # noqa: PERF401 - what came before it breaks off is kept
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
    return events


async def created_and_followed(client: RunClient, request: runs_pb2.CreateRunRequest) -> list[runs_pb2.RunEvent]:
    """The events of a run; its request is repeated when a replica dies of it."""
    request.request_id = str(uuid4())
    while True:
        try:
            run = await client.create(request)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        else:
            return await followed(client, run.run_id)


async def kill_replicas(signalbox: Platform, at_work: asyncio.Event) -> None:
    """Kills one replica after the other, each once the one before is back; the first when runs are at work."""
    await asyncio.wait_for(at_work.wait(), CALL_TIMEOUT_S)
    for replica in itertools.islice(itertools.cycle(signalbox.stack.runtimes), KILLS):
        await replica.kill()
        await replica.start()


async def test_runs_through_deaths_of_replicas_bring_what_langgraph_alone_brings(hosting: Platform) -> None:
    client = hosting.caller("27")
    places, at_work = asyncio.Semaphore(AT_ONCE), asyncio.Event()

    async def one() -> list[runs_pb2.RunEvent]:
        async with places:
            return await created_and_followed(client, asking("slow_chain", until=UNTIL))

    async def talked() -> list[runs_pb2.RunEvent]:
        for number in range(TURNS):
            request = asking("talk", messages=[f"{number}"], text=f"{number}")
            request.thread_id = "talk"
            events = await created_and_followed(client, request)
        return events

    async def counted() -> list[runs_pb2.RunEvent]:
        run = await client.create(asking("tally", until=COUNTED))
        async for event in client.watch(run.run_id):
            if event.HasField("node_completed") or event.HasField("decision"):
                break
        at_work.set()
        return await followed(client, run.run_id)

    chains = (one() for _ in range(RUNS))
    runs = asyncio.gather(counted(), talked(), *chains)
    [tallied, last, *told], _ = await asyncio.gather(runs, kill_replicas(hosting, at_work))
    # Each run of a thread has gone on from the one before, once.
    talk = MessageToDict(last[-1].run_ended.run.output.graph.output)
    assert (talk["turns"], talk["seen"]) == (TURNS, [str(number) for number in range(TURNS)])
    assert talk["messages"][-1]["content"] == f"{2 * TURNS - 1} messages, {TURNS} turns"
    # In its store nothing is there twice, and nothing by half, whatever was run again.
    kept = MessageToDict(tallied[-1].run_ended.run.output.graph.output)["kept"]
    assert set(kept.values()) == {COUNTED / 2}, kept
    expected = await graph_alone("kinds", "slow_chain").ainvoke({"until": UNTIL})
    for events in told:
        run = events[-1].run_ended.run
        assert run.state == runs_pb2.RUN_STATE_SUCCEEDED, run.error
        output = MessageToDict(run.output.graph.output)
        assert sorted(output["numbers"]) == sorted(expected["numbers"])
        assert [message["content"] for message in output["messages"]] == [each.content for each in expected["messages"]]
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        decisions = await client.decisions(run.run_id)
        assert [decision.sequence for decision in decisions] == list(range(1, UNTIL + 2))
        assert len({decision.decision_id for decision in decisions}) == UNTIL + 1
        assert [decision.destination for decision in decisions] == ["count"] * (UNTIL - 1) + ["fan", "square"]
        assert run.spend.model_calls == UNTIL
        assert [(each.node, each.count) for each in decisions[-1].destinations] == [("square", UNTIL)]
    assert len({events[-1].run_id for events in told}) == RUNS
    taken_over = sum(events[-1].run_ended.run.epoch > 1 for events in (*told, tallied))
    assert taken_over, f"{RUNS} runs, and no replica died at work"


async def test_what_a_model_says_is_heard_through_the_death_of_its_replica(hosting: Platform) -> None:
    client = hosting.caller("27")
    speech, begun, events = Speech(), asyncio.Event(), []
    heard: list[str] = []

    async def listen() -> None:
        async for event in client.execute(asking("speech", messages=["Go."]), token_chunks=True):
            events.append(event)
            speech.take(event)
            if speech.text:
                heard.append(speech.text)
                begun.set()

    listening = asyncio.create_task(listen())
    await asyncio.wait_for(begun.wait(), CALL_TIMEOUT_S)
    at_work = [
        replica
        for replica in hosting.stack.runtimes
        if (await scrape(replica.ready.metrics)).value("signalbox_runs_active", {})
    ]
    for replica in at_work:
        await replica.kill()
        await replica.start()
    await asyncio.wait_for(listening, CALL_TIMEOUT_S)
    ended = events[-1].run_ended.run
    assert ended.state == runs_pb2.RUN_STATE_SUCCEEDED, ended.error
    assert ended.epoch > 1, "no replica died at work"
    said = MessageToDict(ended.output.graph.output)["messages"][-1]["content"]
    numbered = [event.sequence for event in events if event.sequence]
    assert numbered == list(range(1, len(numbered) + 1))
    # The message begins anew where its node does, and nothing is heard that was never said.
    resets = [place for place, event in enumerate(events) if event.HasField("tokens_reset")]
    afterwards = {event.token_chunk.message_id for event in events[resets[-1] :] if event.HasField("token_chunk")}
    before = {event.token_chunk.message_id for event in events[: resets[-1]] if event.HasField("token_chunk")}
    assert afterwards
    assert not afterwards & before
    assert said.startswith(heard[-1])


async def test_several_questions_are_answered_from_the_command_and_the_console(hosting: Platform) -> None:
    client, shown = hosting.caller("27"), io.StringIO()
    terminal = Terminal(out=Console(file=shown, width=200), err=Console(file=io.StringIO()))
    connection = Connection(hosting.stack.gateway_address, hosting.token("27"))

    async def asked(agent: str, **given: Any) -> runs_pb2.Run:
        events = [event async for event in client.execute(asking(agent, **given))]
        return await client.get(events[0].run_id)

    async def answered(run: runs_pb2.Run, *answers: str) -> ExitCode:
        return await resume(connection, run.run_id, answers, terminal, asked=None, timeout_s=CALL_TIMEOUT_S)

    run = await asked("two_questions")
    ids = {each.payload.string_value: each.interrupt_id for each in run.input_request.interrupts}
    with pytest.raises(CliError, match="2 questions"):
        await answered(run, "a")
    assert await answered(run, f"{ids['Left?']}=a", f'{ids["Right?"]}={{"b": 1}}') is ExitCode.OK
    assert "right {'b': 1}" in shown.getvalue()

    mail = await asked("guarded", messages=["Send it."])
    with pytest.raises(CliError, match="should be non-empty"):
        await answered(mail, '{"decisions": []}')
    assert mail.input_request.options[0] == '{"decisions": [{"type": "approve"}]}'
    assert await answered(mail, mail.input_request.options[0]) is ExitCode.OK

    mails = [await asked("guarded", messages=["Send it."]) for _ in range(2)]
    edited = {"type": "edit", "edited_action": {"name": "send_mail", "args": {"a": 7, "b": 7}}}
    replies: tuple[dict[str, Any], ...] = ({"option": mails[0].input_request.options[0]}, {"text": edited})
    async with inside(hosting, lambda: hosting.token("27")) as console:
        for mail, said in zip(mails, replies, strict=True):
            assert "send_mail" in (await console.get(f"/questions/{mail.run_id}")).text
            form = {"input_request_id": mail.input_request.input_request_id}
            wrong = await console.post(f"/questions/{mail.run_id}", data={**form, "text": '{"decisions": []}'})
            assert "should be non-empty" in wrong.text
            given = {
                name: each if isinstance(each, str) else json.dumps({"decisions": [each]})
                for name, each in said.items()
            }
            assert (await console.post(f"/questions/{mail.run_id}", data={**form, **given})).status_code == 303
            async for _ in client.watch(mail.run_id):
                pass
            ended = await client.get(mail.run_id)
            assert ("sent 7 7" in str(ended.output)) is ("text" in said), ended

    run = await asked("two_questions")
    ids = {each.payload.string_value: each.interrupt_id for each in run.input_request.interrupts}
    async with inside(hosting, lambda: hosting.token("27")) as console:
        page = await console.get(f"/questions/{run.run_id}")
        assert all(each in page.text for each in ("Left?", "Right?", *ids.values()))
        form = {"input_request_id": run.input_request.input_request_id, f"interrupt.{ids['Right?']}": "b"}
        assert (await console.post(f"/questions/{run.run_id}", data=form)).status_code == 303
        async for _ in client.watch(run.run_id):
            pass
        again = await console.get(f"/questions/{run.run_id}")
        assert "Left?" in again.text
        assert "Right?" not in again.text
    left = await client.get(run.run_id)
    ended = await client.resume(left, "a")
    assert list(MessageToDict(ended.output.graph.output)["answers"]) == ["left a", "right b", "both"]


def without_ids(value: Any) -> Any:
    """A result as JSON, without the ids that messages and calls are given anew in every run."""
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name not in {"id", "tool_call_id"}}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


EDITED, REJECTED = {"type": "edit", "text": "Dear Ann"}, {"type": "reject"}


@pytest.mark.parametrize(
    ("agent", "given", "answer", "led_to"),
    [
        ("calculator", {"messages": ["Add up."], "wanted": 1}, None, ["tools", "__end__"]),
        ("calculator", {"messages": ["Add up."], "wanted": 9}, None, ["tools", "tools", "give_up"]),
        ("digest", {"words": ["one", "three"]}, None, ["measure"]),
        ("letter", {"text": ""}, EDITED, ["send"]),
        ("letter", {"text": ""}, REJECTED, ["drop"]),
        ("basket", {"items": [{"name": "bag", "price": 12}]}, "yes", ["ask"]),
        ("basket", {"items": [{"name": "pen", "price": 2}]}, None, ["give"]),
        ("rollout", {"kind": "full", "log": []}, None, ["checks, build", "types"]),
        ("rollout", {"kind": "quick", "log": []}, None, ["checks, build", "__end__"]),
    ],
)
async def test_a_graph_brings_what_it_brings_alone_and_each_of_its_turns_is_told(
    hosting: Platform, agent: str, given: dict[str, Any], answer: Any, led_to: list[str]
) -> None:
    made = graph_alone("kinds", "make_basket" if agent == "basket" else agent)
    graph = made({}) if callable(made) else made
    alone = getattr(graph, "builder", graph).compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "alone"}}
    brought = await alone.ainvoke(given, config)
    if answer is not None:
        brought = await alone.ainvoke(Command(resume=answer), config)

    client = hosting.caller("27")
    run = await client.create(asking(agent, **given))
    async for _ in client.watch(run.run_id):
        pass
    run = await client.get(run.run_id)
    if answer is not None:
        run = await client.resume(run, json.dumps(answer))
    output = MessageToDict(run.output.graph.output)
    assert without_ids(output) == without_ids(to_jsonable_python(brought))
    assert [each.destination for each in await client.decisions(run.run_id)] == led_to


async def test_callers_learn_what_a_graph_takes(hosting: Platform) -> None:
    stub = agents_pb2_grpc.AgentServiceStub(hosting.channel)
    client = hosting.caller("27")
    listed = await stub.ListAgents(agents_pb2.ListAgentsRequest(), metadata=client.metadata, timeout=CALL_TIMEOUT_S)
    agents = {agent.name: agent for agent in listed.agents}
    assert {"data_chat", "calculator", "trip"} <= agents.keys()
    schema = MessageToDict(agents["digest"].input_schema)
    assert schema["properties"]["words"]["items"] == {"type": "string"}
    assert agents["digest"].description == "Sums lengths of words."
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.create(asking("digest", words=[3]))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "input.graph.input.words[0]" in (refused.value.details() or "")


async def test_a_question_is_answered_on_whichever_replica(hosting: Platform) -> None:
    client = hosting.caller("27")
    run = await client.create(asking("basket", items=[{"name": "bag", "price": 12}]))
    async for _ in client.watch(run.run_id):
        pass
    for replica in hosting.stack.runtimes:
        await replica.restart()
    asked = await client.get(run.run_id)
    assert asked.input_request.question == "Pay 12?"
    ended = await client.resume(asked, "yes")
    assert MessageToDict(ended.output.graph.output)["paid"] is True


async def test_why_code_decided_is_explained(hosting: Platform) -> None:
    client = hosting.caller("27")
    run = await client.create(asking("calculator", messages=["Add up."]))
    await followed(client, run.run_id)
    last = (await client.decisions(run.run_id))[-1]
    assert last.decided_by == hosted_pb2.DECIDED_BY_LIFTED
    assert [(test.test, test.held) for test in last.code.tests] == [("not last.tool_calls", True)]
    assert (last.code.returned, last.code.remark) == ("END", "the model asked for no tool")
    assert last.code.source.startswith("kinds.py:")
    explained = await client.stub.ExplainRun(
        runs_pb2.ExplainRunRequest(run_id=run.run_id), metadata=client.metadata, timeout=CALL_TIMEOUT_S
    )
    told = {each.sequence: [rule.missed_by for rule in each.rules] for each in explained.explanations}
    assert told[2] == ["last_message_tool_calls is yes", "2 of 3 rounds", ""]
    limits = [(limit.name, limit.value.number_value) for limit in explained.run.agent.limits]
    assert limits == [("most_rounds", 3)]
    assert [step.node for step in explained.run.route] == ["model", "tools", "model", "tools", "model"]
    request = runs_pb2.CountDecisionsRequest(agent="calculator", since_time=run.create_time)
    counts = (await client.stub.CountDecisions(request, metadata=client.metadata, timeout=CALL_TIMEOUT_S)).counts
    # Of a lifted table too, a rule that has never fired is told.
    assert {each.rule: each.count > 0 for each in counts}.items() >= {"most_rounds": False, "to_end": True}.items()
    async with inside(hosting, lambda: hosting.token("27")) as console:
        for path in (f"/runs/{run.run_id}", "/routes?agent=calculator"):
            page = await console.get(path, follow_redirects=True)
            assert page.status_code == 200, (path, page.text[:2000])
        shown = await console.get(f"/runs/{run.run_id}", follow_redirects=True)
        assert "not last_message_tool_calls" in shown.text
        assert "2 of 3 rounds" in shown.text
        # From its data the page makes a slider for each limit.
        assert 'id="sliders"' in shown.text
        data = json.loads(shown.text.partition('id="data">')[2].partition("</script>")[0])
        assert [(limit["name"], limit["value"]) for limit in data["limits"]] == [("most_rounds", 3)]
    nodes = {node.node: list(node.destinations) for node in explained.run.agent.nodes}
    assert nodes["model"] == ["tools", "give_up", "__end__"]


async def test_a_run_is_read_step_by_step_and_gone_on_from(hosting: Platform, tmp_path: Path) -> None:
    async def command(*arguments: str) -> str:
        status, said = await signalbox(hosting, tmp_path, ("27",), *arguments)
        assert status == ExitCode.OK, said
        return said

    client = hosting.caller("27")
    run = await client.create(asking("calculator", messages=["Add up."], wanted=2))
    await followed(client, run.run_id)
    shown = await command("state", run.run_id, "--step", "2")
    assert "next: model" in shown
    assert '"rounds": 1' in shown
    changes = tmp_path / "changes.yaml"
    changes.write_text("rounds: 5")
    made = await command("fork", run.run_id, "--step", "3", "--update", str(changes), "--as-node", "model", "--json")
    fork_id = json.loads(made)["run"]["run_id"]
    ended = (await followed(client, fork_id))[-1].run_ended.run
    assert MessageToDict(ended.output.graph.output)["messages"][-1]["content"] == "I give up."
    assert (ended.forked_from.run_id, list(ended.forked_from.changed_fields)) == (run.run_id, ["rounds"])
    # Where the edges of the node led that was taken to have changed the state is on record, too.
    assert [each.destination for each in await client.decisions(fork_id)] == ["give_up"]
    assert f"from step 3 of {run.run_id}, rounds changed as by model" in await command("explain", fork_id)


async def test_an_operator_erases_what_stores_hold_of_a_caller(hosting: Platform, tmp_path: Path) -> None:
    client = hosting.caller("29")
    for kept in (1.0, 2.0):
        run = await client.create(asking("tally", until=2))
        ended = (await followed(client, run.run_id))[-1].run_ended.run
        assert MessageToDict(ended.output.graph.output)["kept"]["left"] == kept
    refused, _ = await signalbox(hosting, tmp_path, ("29",), "erase-store", "29", "--yes")
    assert refused != ExitCode.OK
    status, said = await signalbox(hosting, tmp_path, ("1", ROLE_OPERATOR), "erase-store", "29", "--yes")
    # A count and two notes in each of two places.
    assert (status, said.strip()) == (ExitCode.OK, "6 items deleted")


async def pinned(hosting: Platform, request: runs_pb2.CreateRunRequest, *answers: str) -> cases_pb2.Case:
    """A run that is recorded, with answers to what it asks, as a case."""
    client = hosting.caller("27")
    request.record = True
    run = await client.create(request)
    for answer in answers:
        async for _ in client.watch(run.run_id):
            pass
        await client.resume(await client.get(run.run_id), answer)
    async for _ in client.watch(run.run_id):
        pass
    async with open_gateway(Connection(hosting.stack.gateway_address, hosting.token("27"))) as gateway:
        return await case_of(gateway, run.run_id)


async def replayed(case: cases_pb2.Case) -> str:
    found, notes = await replay(case, {}, CaseSettings(agent_folders=(FOLDER,)), goes_on=False)
    return "\n".join([*notes, *in_words(case, found)])


async def test_a_recorded_run_decides_the_same_though_no_node_of_it_runs(
    hosting: Platform, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cited = asking("trip")
    cited.input.graph.context.update({"name": "Ann"})
    again = asking("talk", text="two", messages=["Hello."])
    again.thread_id = "recorded-talk"
    before = asking("talk", text="one", messages=["Hello."])
    before.thread_id = "recorded-talk"
    poor = asking("calculator", messages=["Add up."])
    poor.budget.model_calls = 2
    expected = {
        "calculator": (await pinned(hosting, asking("calculator", messages=["Add up."])), 3, "completed"),
        "budget": (await pinned(hosting, poor), 3, "failed"),
        "supervisor": (await pinned(hosting, asking("supervisor", todo=["writer"], done=[])), 3, "completed"),
        "digest": (await pinned(hosting, asking("digest", words=["one", "two", "three"])), 1, "completed"),
        "leaving": (await pinned(hosting, asking("leaving", log=[])), 1, "completed"),
        "rollout": (await pinned(hosting, asking("rollout", kind="full", log=[])), 2, "completed"),
        "trip": (await pinned(hosting, cited), 2, "completed"),
        "failing": (await pinned(hosting, asking("failing")), 1, "failed"),
        "mended": (await pinned(hosting, asking("mended")), 0, "completed"),
        "basket": (
            await pinned(hosting, asking("basket", items=[{"name": "bag", "price": 12}]), "yes"),
            1,
            "completed",
        ),
        "talk": ((await pinned(hosting, before), await pinned(hosting, again))[1], 0, "completed"),
    }
    for name, (case, decisions, status) in expected.items():
        assert len(case.decisions) == decisions, name
        assert await replayed(case) == f"decides the same: {decisions} decisions, {status}", name

    case = expected["calculator"][0]
    file = tmp_path / "case.json"
    file.write_text(MessageToJson(case))
    terminal = Terminal(out=Console(file=io.StringIO()), err=Console(stderr=True, width=200))
    assert await replay_case(file, (), terminal, goes_on=False, agents=FOLDER) is ExitCode.OK
    assert await replay_case(file, (), terminal, goes_on=False) is ExitCode.USAGE
    assert "name its folder by --agents FOLDER" in capsys.readouterr().err
    kept = cases_pb2.Case()
    kept.CopyFrom(case)
    kept.run.state = runs_pb2.RUN_STATE_CANCELLED
    del kept.answers[-1], kept.decisions[-1]
    assert await replayed(kept) == "decides the same: 2 decisions"
    del case.answers[-1]
    assert await replayed(case) == ("after decision 2 of 3 recorded ones: the recording has no answer of node to model")


async def test_where_a_path_function_decides_otherwise_now_is_told(
    hosting: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await pinned(hosting, asking("calculator", messages=["Add up."]))
    assert await replayed(case) == "decides the same: 3 decisions, completed"
    monkeypatch.setattr(sys.modules["kinds"], "MOST_ROUNDS", 1)
    told = await replayed(case)
    assert "parts at decision 1, after model, by calculator.route_after_model" in told
    assert "now:      `most_rounds` → give_up" in told
    assert "since:    most_rounds = 1, rounds = 1" in told


GREETING = """
from typing import TypedDict
from langgraph.graph import StateGraph

class Greeting(TypedDict, total=False):
    name: str
    said: str

builder = StateGraph(Greeting)
builder.add_node("greet", lambda state: {"said": f"Hello, {state['name']}."})
builder.set_entry_point("greet")
"""


async def test_a_pool_executes_what_the_runtime_has_not_loaded(hosting: Platform, tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"salute": "./salute.py:builder"}, "dependencies": ["."]}')
    (tmp_path / "salute.py").write_text(GREETING)
    first = hosting.stack.runtimes[0].program
    needed = ("SIGNALBOX_DATABASE_DSN", "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE")
    env = {name: first.env[name] for name in needed}
    own = {"SIGNALBOX_POOL": "desk", "SIGNALBOX_AGENT_FOLDERS": str(tmp_path), "SIGNALBOX_LISTEN": "127.0.0.1:0"}
    pool = ServiceProcess(
        replace(first, name="runtime-desk", env={**env, **own}),
        hosting.stack.directory,
        ready_timeout_s=START_TIMEOUT_S,
    )
    client = hosting.caller("27")
    with pytest.raises(grpc.aio.AioRpcError, match="names no agent that runs here"):
        await client.create(asking("salute", name="Ada"))
    await pool.start()
    try:
        run = await client.create(asking("salute", name="Ada"))
        ended = (await followed(client, run.run_id))[-1].run_ended.run
    finally:
        await pool.stop(grace_s=GRACE_S)
    assert ended.state == runs_pb2.RUN_STATE_SUCCEEDED, ended.error
    assert MessageToDict(ended.output.graph.output)["said"] == "Hello, Ada."
