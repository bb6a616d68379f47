"""Runs started, repeated and cancelled in the console, conversations, and what recorded runs heard."""

from __future__ import annotations

import html
import json
import re

import grpc
import httpx
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import (
    agents_pb2,
    data_chat_pb2,
    guard_pb2,
    outcome_pb2,
    recorded_answers_pb2,
    runs_pb2,
    tools_pb2,
)

from services.kit.errors import FieldViolation
from services.kit.wire.input_schema import agents_known
from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.fake_gateway import FakeGateway, refusal
from tests.integration.console.test_explanation_page import HOSTILE

ASKED = {"agent": "data_chat", "request_id": "r-1"}


def hosted(name: str = "mine") -> agents_pb2.Agent:
    """A graph that takes messages, a number of one of its own types, and a list."""
    agent = agents_pb2.Agent(name=name)
    agent.input_schema.update(
        {
            "type": "object",
            "required": ["messages"],
            "properties": {
                "messages": {"type": "array", "items": {"title": "Message"}},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["fast", "slow"]},
            },
        }
    )
    return agent


async def test_a_form_starts_a_run(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    page = (await inside.get("/new", params={"agent": "data_chat", "thread": "talk"})).text
    assert 'name="input.question"' in page
    assert "required" in page.partition('name="input.question"')[2].partition(">")[0]
    form = {**ASKED, "thread": "talk", "labels": "team=blue", "input.question": "How many?", "input.want_csv": "yes"}
    started = await inside.post("/new", data=form)
    assert (started.status_code, started.headers["location"]) == (303, f"/runs/{RUN_ID}")
    [made] = gateway.created
    expected = data_chat_pb2.DataChatInput(question="How many?", want_csv=True)
    assert made.input.data_chat == expected
    assert (made.thread_id, dict(made.labels), made.request_id) == ("talk", {"team": "blue"}, "r-1")


async def test_each_form_has_an_id_by_which_it_starts_one_run(inside: httpx.AsyncClient) -> None:
    pages = [(await inside.get("/new")).text for _ in range(2)]
    first, second = (re.findall(r'name="request_id" value="([^"]+)"', page) for page in pages)
    assert first != second


async def test_what_is_wrong_is_told_at_its_field_and_what_was_written_stays(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    wrong = [FieldViolation("input.data_chat.question", "is <too> long"), FieldViolation("thread_id", "has a space")]
    gateway.create_failure = refusal(grpc.StatusCode.INVALID_ARGUMENT, "no", violations=wrong)
    form = {**ASKED, "input.question": "a </textarea> b", "thread": "a b", "labels": "team=blue"}
    refused = await inside.post("/new", data=form)
    assert refused.status_code == 400
    assert 'id="problem-input.question">is &lt;too&gt; long' in refused.text
    assert 'id="problem-thread">has a space' in refused.text
    assert "a &lt;/textarea&gt; b</textarea>" in refused.text
    assert 'name="request_id" value="r-1"' in refused.text
    gateway.create_failure = refusal(grpc.StatusCode.UNAVAILABLE)
    away = await inside.post("/new", data=form)
    assert (away.status_code, 'http-equiv="refresh"' in away.text) == (503, False)
    assert "a &lt;/textarea&gt; b</textarea>" in away.text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("limit", "many"), ("limit", "nan"), ("limit", "1e999"), ("tags", "[1"), ("tags", "[NaN]"),
        ("tags", '["\\ud800"]'), ("tags", "[" * 20_000), ("tags", "1" * 5000),
        ("tags", '{"a":' * 400 + "1" + "}" * 400),
    ],
)  # fmt: skip
async def test_what_can_not_be_read_is_not_sent(
    inside: httpx.AsyncClient, gateway: FakeGateway, name: str, text: str
) -> None:
    gateway.hosted = [hosted()]
    form = {"agent": "mine", "input.messages": "Hello", f"input.{name}": text}
    refused = await inside.post("/new", data=form)
    assert (refused.status_code, f'id="problem-input.{name}"' in refused.text) == (400, True)
    assert gateway.created == []


async def test_a_hosted_graph_is_given_what_its_schema_asks_for(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    gateway.hosted = [hosted()]
    page = (await inside.get("/new", params={"agent": "mine"})).text
    assert re.findall(r'name="input\.(\w+)"', page) == ["messages", "limit", "mode", "tags"]
    form = {"agent": "mine", "input.messages": "Hello", "input.limit": "3", "input.tags": '["a"]', "input.mode": "slow"}
    assert (await inside.post("/new", data=form)).status_code == 303
    [made] = gateway.created
    assert made.input.graph.agent == "mine"
    assert MessageToDict(made.input.graph.input) == {
        "messages": [{"role": "user", "content": "Hello"}], "limit": 3, "tags": ["a"], "mode": "slow",
    }  # fmt: skip


@pytest.mark.parametrize("agent", agents_known())
async def test_every_agent_has_a_form(inside: httpx.AsyncClient, gateway: FakeGateway, agent: str) -> None:
    gateway.hosted = [agents_pb2.Agent(name=agent)]
    page = await inside.get("/new", params={"agent": agent})
    assert page.status_code == 200
    assert re.search(r'name="input\.[\w.]+"', page.text)
    # What the contract calls things is for programs.
    assert not re.search(r">[^<]*([A-Z]+_[A-Z]+|Output\.|Input\.)[^<]*<", page.text)


async def test_a_run_is_run_again_with_its_input(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    assert f'href="/new?from={RUN_ID}"' in (await inside.get(f"/runs/{RUN_ID}")).text
    gateway.shown.run.labels["team"] = "blue"
    page = (await inside.get("/new", params={"from": RUN_ID})).text
    assert "Which of my devices are hot?</textarea>" in page
    assert 'value="team=blue"' in page
    assert "masked" not in page
    gateway.shown.run.input.data_chat.question = "Is [redacted: email] hot?"
    assert "Parts of that run's input are masked here" in (
        await inside.get("/new", params={"from": RUN_ID})
    ).text.replace("&#39;", "'")


async def test_a_hosted_run_is_run_again_with_all_that_it_was_given(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    gateway.hosted = [hosted()]
    earlier = gateway.shown.run
    earlier.agent = earlier.input.graph.agent = "mine"
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    earlier.input.graph.input.update({"messages": history, "limit": 1_234_567})
    earlier.input.graph.context.update({"user": "ann"})
    page = (await inside.get("/new", params={"from": RUN_ID})).text
    fields = dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n([^<]*)</textarea>', html.unescape(page)))
    fields |= dict(re.findall(r'<input[^>]* name="([^"]+)" value="([^"]*)"', html.unescape(page)))
    assert (await inside.post("/new", data={**fields, "agent": "mine"})).status_code == 303
    assert gateway.created[-1].input == earlier.input
    gateway.create_failure = refusal(grpc.StatusCode.INVALID_ARGUMENT, "no")
    again = (await inside.post("/new", data={**fields, "agent": "mine"})).text
    assert 'name="json.input.messages"' in again
    assert "ann" in again
    assert (await inside.post("/new", data={**fields, "agent": "mine", "context": "[]"})).status_code == 400


async def test_a_graph_whose_schema_names_no_fields_is_given_one_object(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    agent = agents_pb2.Agent(name="mine")
    agent.input_schema.update({"type": "object"})
    gateway.hosted = [agent]
    assert 'name="input"' in (await inside.get("/new", params={"agent": "mine"})).text
    assert (await inside.post("/new", data={"agent": "mine", "input": "[1]"})).status_code == 400
    assert (await inside.post("/new", data={"agent": "mine", "input": '{"a": [1]}'})).status_code == 303
    assert MessageToDict(gateway.created[-1].input.graph.input) == {"a": [1]}


async def test_a_run_that_goes_on_can_be_cancelled(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    assert "/cancel" not in (await inside.get(f"/runs/{RUN_ID}")).text
    gateway.shown.run.state = runs_pb2.RUN_STATE_RUNNING
    assert f'action="/runs/{RUN_ID}/cancel"' in (await inside.get(f"/runs/{RUN_ID}")).text
    cancelled = await inside.post(f"/runs/{RUN_ID}/cancel", data={"x": ""})
    assert (cancelled.status_code, gateway.cancelled) == (303, [RUN_ID])


async def test_a_conversation_is_what_was_said_in_it(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    run, hostile = gateway.shown.run, "".join(HOSTILE[:-1])
    run.thread_id, run.title, run.outcome = "talk", f"How many? {hostile}", outcome_pb2.OUTCOME_ANSWERED
    run.output.data_chat.answer = f"Three. {hostile}"
    listed = (await inside.get("/threads")).text
    assert 'href="/threads/talk"' in listed
    page = (await inside.get("/threads/talk")).text
    shown = html.escape(hostile).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    assert page.index(f"How many? {shown}") < page.index(f"Three. {shown}")
    assert hostile not in page
    assert 'href="/new?thread=talk&amp;agent=data_chat"' in page
    elsewhere = await inside.get("/threads/another")
    assert (elsewhere.status_code, elsewhere.headers["location"]) == (303, "/runs?thread=another")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
        (grpc.StatusCode.UNAVAILABLE, 503),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 504),
        (grpc.StatusCode.UNAUTHENTICATED, 401),
    ],
)
async def test_a_conversation_whose_runs_can_not_be_read_says_why(
    inside: httpx.AsyncClient, gateway: FakeGateway, code: grpc.StatusCode, status: int
) -> None:
    gateway.shown.run.thread_id = "talk"
    gateway.failure_of_runs = refusal(code, "not <now>")
    page = await inside.get("/threads/talk")
    assert (page.status_code, "not &lt;now&gt;" in page.text) == (status, True)


async def test_the_state_that_a_step_left(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    link = f"/runs/{RUN_ID}/state?checkpoint=checkpoint-1"
    assert link in html.unescape((await inside.get(f"/runs/{RUN_ID}")).text)
    gateway.state.values.update({"messages": [{"role": "human", "content": "<b>hi</b>"}], "count": 2})
    page = (await inside.get(link)).text
    assert "State after step 1" in page
    assert "&lt;b&gt;hi&lt;/b&gt;</p>" in page
    assert re.search(r"&#34;count&#34;: 2\b", page)
    assert "Go on from here" not in page
    gone = await inside.get(f"/runs/{RUN_ID}/state?checkpoint=checkpoint-9")
    assert (gone.status_code, "no longer kept" in gone.text) == (404, True)
    for step in ("x", "99999999999"):
        assert (await inside.get(f"/runs/{RUN_ID}/state", params={"step": step})).status_code == 400


async def test_a_hosted_run_is_gone_on_with_from_a_step(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.shown.run.input.graph.agent = "mine"
    path = f"/runs/{RUN_ID}/state"
    assert "Go on from here" in (await inside.get(path, params={"step": "2"})).text
    made = await inside.post(path, data={"step": "2", "update": '{"count": 3}', "as_node": "count"})
    assert (made.status_code, made.headers["location"]) == (303, f"/runs/{RUN_ID}")
    [fork] = gateway.forks
    assert (fork.step, MessageToDict(fork.update), fork.as_node) == (2, {"count": 3}, "count")
    for update in ("{", "[1]", '{"a": NaN}', '{"a":' * 400 + "1" + "}" * 400):
        refused = await inside.post(path, data={"step": "2", "update": update, "as_node": "<count>"})
        assert 'name="as_node" value="&lt;count&gt;"' in refused.text
        assert re.search("The change of the state is (not JSON|no JSON object|nested deeper)", refused.text)
        assert (
            refused.status_code,
            f"{html.escape(update)}</textarea>".replace("&quot;", "&#34;") in refused.text,
        ) == (400, True)
    gateway.create_failure = refusal(grpc.StatusCode.INVALID_ARGUMENT, "there is no field total")
    refused = await inside.post(path, data={"step": "2", "update": '{"total": 3}'})
    assert (refused.status_code, "there is no field total" in refused.text) == (400, True)
    assert len(gateway.forks) == 2


async def test_what_nodes_heard_of_a_recorded_run(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    assert f'href="/runs/{RUN_ID}/answers"' in (await inside.get(f"/runs/{RUN_ID}")).text
    hostile = "".join(HOSTILE[:-1])
    function = {"name": "execute_db_query", "arguments": json.dumps({"query": f"SELECT 1 {hostile}"})}
    completion = {
        "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}}]
    }
    given = tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(text=f"n: 1 {hostile}"))
    prompt = {"role": "system", "content": f"You answer questions {hostile}"}
    named = {"type": "function", "function": {"name": "execute_db_query"}}
    before = {"role": "assistant", "tool_calls": [{"function": function}]}
    asked_of_model: dict[str, object] = {"messages": [prompt, before], "tools": [named]}
    screened = guard_pb2.ScreenResponse(
        verdict=guard_pb2.SCREEN_VERDICT_ALLOW, reason="allowed", stage=guard_pb2.SCREEN_STAGE_MODEL
    )

    def heard(source: str, method: str, answer: bytes) -> recorded_answers_pb2.RecordedAnswer:
        return recorded_answers_pb2.RecordedAnswer(source=source, method=method, answer=answer)

    failure = recorded_answers_pb2.RecordedFailure(kind="http_503", message=f"away {hostile}")
    gateway.heard = [
        heard("model", "chat", json.dumps(completion).encode()),
        heard("sql_executor", "CallTool execute_db_query", given.SerializeToString()),
        heard("guard", "Screen", screened.SerializeToString()),
        heard("person", "answer", b'"approve"'),
        recorded_answers_pb2.RecordedAnswer(source="model", method="chat", failure=failure),
        heard("model", "chat", b"\xff["),
        heard("oracle", "Foretell", b"\xff"),
        heard("sql_executor", "CallTool x", b"\xff\xff"),
    ]
    gateway.heard[0].request.CopyFrom(ParseDict(asked_of_model, Struct()))
    gateway.heard[1].request.update({"query": "SELECT 2 AS asked"})
    gateway.heard[2].request_bytes = 70_000
    gateway.heard[3].request.update({"messages": "of another release"})
    page = (await inside.get(f"/runs/{RUN_ID}/answers")).text
    assert hostile not in page
    told = html.unescape(page)
    for said in (
        "asks for execute_db_query", "SELECT 1", "n: 1", "allow", "approve", "failed: away", "2 bytes",
        "You answer questions", "SELECT 2 AS asked", "had 70,000 bytes, and is not kept", "of another release",
    ):  # fmt: skip
        assert said in told
    assert not [name for name in ("SCREEN_VERDICT", "SCREEN_STAGE", "CallTool") if name in told]


async def test_what_is_not_kept_of_a_run_that_was_not_recorded_says_how_to_have_it(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    gateway.heard = None
    page = await inside.get(f"/runs/{RUN_ID}/answers")
    assert page.status_code == 200
    for said in ("was not recorded", f'href="/new?from={RUN_ID}"', "--record", "SIGNALBOX_RECORD_RUNS=true"):
        assert said in page.text
    new = (await inside.get(f"/new?from={RUN_ID}")).text
    assert 'name="record"' in new
    assert "record it" in new
