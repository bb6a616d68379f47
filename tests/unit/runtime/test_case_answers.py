"""Answers of a recording, given back: to the same question, else in order; failures as they were."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from signalbox.v1 import cases_pb2, guard_pb2, guard_pb2_grpc, runs_pb2, tools_pb2

from services.kit.errors import error_detail, to_status
from services.kit.models.completions import CompletionError, Completions, Endpoint
from services.runtime.calls.recording import CHAT, MODEL, Answer, Failure, asked_of, asked_of_model, method_of
from services.runtime.cases.answers import AnsweringChannel, AnsweringModel, Answers
from services.runtime.cases.comparison import DecisionComparison
from services.runtime.cases.errors import AnswerMissing
from services.runtime.errors import RunNotFound
from services.runtime.routing.stopping import RUN_CANCELLED


def said(asked: str, answer: str, method: str = CHAT) -> Answer:
    return Answer(source=MODEL, method=method, asked=asked, answer=answer.encode())


def test_an_answer_goes_to_its_question_else_to_the_next_and_once() -> None:
    answers = Answers([said("a", "1"), said("b", "2"), said("a", "3"), said("x", "4", "other")])
    assert answers.give(MODEL, CHAT, "b").answer == b"2"
    assert answers.give(MODEL, CHAT, "reworded").answer == b"1"
    assert answers.give(MODEL, CHAT, "a").answer == b"3"
    with pytest.raises(AnswerMissing, match="no answer of model to chat"):
        answers.give(MODEL, CHAT, "a")
    assert answers.missing is not None


def test_off_the_recorded_way_only_the_same_question_is_answered() -> None:
    answers = Answers([said("a", "1"), said("b", "2")])
    answers.has_left_the_way = True
    assert answers.give(MODEL, CHAT, "b").answer == b"2"
    with pytest.raises(AnswerMissing):
        answers.give(MODEL, CHAT, "reworded")


@pytest.mark.parametrize("answer", [b"", b"{", b"\xff", b"[" * 100_000])
def test_an_answer_of_a_person_that_is_damaged_is_missing(answer: bytes) -> None:
    answers = Answers([])
    with pytest.raises(AnswerMissing, match="an answer of the person is damaged"):
        answers.read(Answer(source="person", method="answer", answer=answer))
    assert answers.missing is not None


class Model(Completions):
    """A model that is there."""

    def __init__(self) -> None:
        super().__init__(Endpoint("", "", 1.0, 0))

    async def create(self, payload: Any) -> dict[str, Any]:
        """Says who it is."""
        return {"real": payload["model"]}


async def test_a_model_is_asked_only_off_the_recorded_way() -> None:
    payload = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    failed = Answer(source=MODEL, method=CHAT, failure=Failure(kind="http_401", message="no", said="No such key."))
    answers = Answers([failed, said(asked_of_model(payload), json.dumps({"choices": []})), said("", "not JSON")])
    completions = AnsweringModel(answers, Model())
    assert await completions.create({**payload, "model": "another name"}) == {"choices": []}
    with pytest.raises(CompletionError) as refused:
        await completions.create(payload)
    assert (refused.value.kind, refused.value.said, refused.value.retryable) == ("http_401", "No such key.", False)
    with pytest.raises(AnswerMissing, match="damaged"):
        await completions.create(payload)
    answers.has_left_the_way = True
    assert await completions.create(payload) == {"real": "m"}


async def test_a_service_answers_and_fails_as_it_did() -> None:
    path = "/signalbox.v1.GuardService/Screen"
    request = guard_pb2.ScreenRequest(question="Who?")
    error = to_status(RunNotFound("no such run", metadata={"run_id": "7"}))
    answered = guard_pb2.ScreenResponse(reason="allowed").SerializeToString()
    failure = Failure(code=5, message="no such run", status=error.SerializeToString())
    method = method_of(path, request)
    answers = Answers(
        [
            Answer(source="guard", method=method, asked=asked_of(request), answer=answered),
            Answer(source="guard", method=method, failure=failure),
            Answer(source="guard", method=method, answer=b"\xff\xff"),
        ]
    )
    channel: Any = AnsweringChannel("guard", answers)
    stub: Any = guard_pb2_grpc.GuardServiceStub(channel)
    assert (await stub.Screen(request, timeout=1, metadata=[])).reason == "allowed"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Screen(request, timeout=1, metadata=[])
    detail = error_detail(refused.value)
    assert (detail.code, detail.reason, detail.metadata["run_id"]) == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND", "7")
    with pytest.raises(AnswerMissing, match="damaged"):
        await stub.Screen(request)


def test_what_differs_from_one_execution_to_the_next_is_not_asked() -> None:
    def call(value: str, **others: Any) -> tools_pb2.CallToolRequest:
        made = tools_pb2.CallToolRequest(tool="read_file", **others)
        made.arguments.update({"path": value})
        return made

    assert asked_of(call("a", epoch=1)) == asked_of(call("a", epoch=2)) != asked_of(call("b", epoch=1))
    assert method_of(b"/signalbox.v1.ToolExecutorService/CallTool", call("a")) == "CallTool read_file"


def test_where_a_run_was_broken_off_its_replay_leaves_off_as_the_same() -> None:
    decided = [("r", "go_on", "a"), ("r", RUN_CANCELLED, "__end__")]
    decisions = [runs_pb2.Decision(router=router, rule=rule, destination=to) for router, rule, to in decided]
    case = cases_pb2.Case(run=runs_pb2.Run(state=runs_pb2.RUN_STATE_CANCELLED), decisions=decisions)
    answers = Answers([])
    comparison = DecisionComparison(case, answers, goes_on=False)
    made: Any = {"router": "r", "rule": "go_on", "destination": "a"}
    step: Any = {"node": "n", "calls": [], "decision": made}
    assert comparison.hold(step)
    with pytest.raises(AnswerMissing):
        answers.give(MODEL, CHAT, "what the node that was broken off asks")
    assert comparison.ended("").is_same
