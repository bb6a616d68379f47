"""Answers given in the console: to which question they are, why one is refused, and that none is lost."""

from __future__ import annotations

import html

import grpc
import httpx
import pytest
from signalbox.v1 import questions_pb2, runs_pb2

from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.fake_gateway import FakeGateway, refusal, waiting


async def test_an_answer_names_question_and_plan(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.question = waiting()
    page = await inside.get(f"/questions/{RUN_ID}")
    assert 'name="plan_hash" value="plan-1"' in page.text
    form = {"input_request_id": "q-1", "plan_hash": "plan-1", "option": "approve", "text": ""}
    answered = await inside.post(f"/questions/{RUN_ID}", data=form)
    assert (answered.status_code, answered.headers["location"]) == (303, f"/questions/{RUN_ID}")
    [given] = gateway.answers
    assert (given.run_id, given.input_request_id, given.plan_hash, given.answer) == (RUN_ID, "q-1", "plan-1", "approve")
    await inside.post(f"/questions/{RUN_ID}", data={**form, "option": "", "text": " one\r\ntwo "})
    assert gateway.answers[-1].answer == "one\ntwo"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, 409),
        (grpc.StatusCode.INVALID_ARGUMENT, 400),
        (grpc.StatusCode.PERMISSION_DENIED, 403),
        (grpc.StatusCode.UNAVAILABLE, 503),
    ],
)
async def test_a_refused_answer_says_why_and_is_not_lost(
    inside: httpx.AsyncClient, gateway: FakeGateway, code: grpc.StatusCode, status: int
) -> None:
    gateway.question = waiting()
    gateway.question.input_request.any_text = True
    gateway.answer_failure = refusal(code, "not like <this>")
    form = {"input_request_id": "q-1", "plan_hash": "plan-1", "option": "", "text": "I'd </textarea> rather"}
    refused = await inside.post(f"/questions/{RUN_ID}", data=form)
    assert refused.status_code == status
    assert "not like &lt;this&gt;" in refused.text
    assert "SO_IT_IS" in refused.text
    assert "I&#39;d &lt;/textarea&gt; rather</textarea>" in refused.text
    gateway.question.input_request.input_request_id = "q-2"  # the run asks something else now
    elsewhere = await inside.post(f"/questions/{RUN_ID}", data=form)
    gateway.question.state = questions_pb2.QUESTION_STATE_ANSWERED  # by somebody who was faster
    too_late = await inside.post(f"/questions/{RUN_ID}", data=form)
    for page in (elsewhere, too_late):
        assert "rather</textarea>" not in page.text
        assert "I&#39;d &lt;/textarea&gt; rather</p>" in page.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"\\ud800"', "can't be sent: it is no text"),
        ('{"a":' * 300 + "1" + "}" * 300, "can't be sent: it is nested deeper"),
        ("9" * 20, "can't be sent: it has the whole number"),
    ],
)
async def test_an_answer_to_one_of_several_that_can_not_be_sent_is_not_lost(
    inside: httpx.AsyncClient, gateway: FakeGateway, text: str, told: str
) -> None:
    gateway.question = waiting()
    gateway.question.input_request.interrupts.add(interrupt_id="first")
    gateway.question.input_request.interrupts.add(interrupt_id="second")
    form = {"input_request_id": "q-1", "interrupt.first": "my own words", "interrupt.second": text}
    refused = await inside.post(f"/questions/{RUN_ID}", data=form)
    assert (refused.status_code, "my own words" in refused.text, gateway.answers) == (400, True, [])
    assert told in html.unescape(refused.text)
    assert (await inside.post(f"/questions/{RUN_ID}", data={**form, "interrupt.second": "[1]"})).status_code == 303
    [given] = gateway.answers
    assert (given.answers["first"].string_value, given.answers["second"].list_value[0]) == ("my own words", 1)


async def test_an_answer_to_a_gateway_that_is_away_is_not_lost(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.failure = refusal(grpc.StatusCode.UNAVAILABLE)
    unsent = await inside.post(f"/questions/{RUN_ID}", data={"input_request_id": "q-1", "text": "my <own> words"})
    assert (unsent.status_code, 'http-equiv="refresh"' in unsent.text) == (503, False)
    assert "my &lt;own&gt; words" in unsent.text
    assert "sending the same answer twice is harmless" in unsent.text


async def test_who_may_not_answer_has_no_form(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.question = waiting(roles=["approver"])
    gateway.question.right = runs_pb2.ANSWER_RIGHT_UNSPECIFIED
    page = await inside.get(f"/questions/{RUN_ID}")
    assert ("<form" in page.text, "role approver" in page.text) == (False, True)


async def test_forms_are_bounded_and_forms(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    path = f"/questions/{RUN_ID}"
    assert (await inside.post(path, data={"text": "x" * 70_000})).status_code == 413
    assert (await inside.post(path, json={"text": "x"})).status_code == 400
    assert (await inside.post(path, files={"text": b"x"})).status_code == 400
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"\xff", "&".join(f"f{number}=1" for number in range(200)).encode(), b"text=%ff"):
        assert (await inside.post(path, content=body, headers=headers)).status_code == 400
    assert gateway.answers == []
