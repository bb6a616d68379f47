"""What the body of a run may say, and what it is refused for."""

from __future__ import annotations

from typing import Any

import pytest
from signalbox.v1 import agents_pb2, hosted_pb2

from services.http_api.assistants import Assistant
from services.http_api.errors import Invalid
from services.http_api.json_bodies import json_of
from services.http_api.run_request import RunBody, read_body
from services.kit.errors import FieldViolation


def body(**given: Any) -> RunBody:
    return read_body(RunBody, {"assistant_id": "talk", **given})


@pytest.mark.parametrize("given", [{"resume": None}, {"resume": False}, {"resume": "yes", "goto": [], "update": {}}])
def test_a_resume_answers_whatever_it_is(given: dict[str, Any]) -> None:
    asked = body(command=given)
    asked.check()
    assert asked.resumes


@pytest.mark.parametrize("given", [{}, {"goto": []}, {"update": None}, {"resume": "yes", "goto": "model"}])
def test_a_command_that_does_nothing_or_more_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="command: "):
        body(command=given).check()


def test_what_a_fork_takes_is_its_input() -> None:
    plain: dict[str, Any] = {"config": {"configurable": {"thread_id": "t", "checkpoint_id": "c"}}, "context": {}}
    body(**plain, multitask_strategy="reject").check_fork("t")
    refused: list[dict[str, Any]] = [
        {"context": {"a": 1}},
        {"config": {"configurable": {"a": 1}}},
        {"metadata": {"team": "payments"}},
        {"multitask_strategy": "enqueue"},
    ]
    for each in refused:
        with pytest.raises(Invalid, match="is not taken by a run that goes on from"):
            body(**each).check_fork("t")


def test_the_answer_that_a_graph_around_it_was_resumed_with_is_one_by_id() -> None:
    def given(**configurable: Any) -> RunBody:
        return read_body(RunBody, {"assistant_id": "talk", "input": {}, "config": {"configurable": configurable}})

    resumed = given(__pregel_resuming=True, __pregel_resume_map={"a": "yes", "of another graph": "no"})
    answer = resumed.answering(["a", "b"])
    assert (answer.resumes, answer.command and answer.command.resume) == (True, {"a": "yes"})
    with pytest.raises(Invalid, match="by its id"):
        resumed.answering(["b"])
    with pytest.raises(Invalid, match="by its id"):
        given(__pregel_resuming=True).answering(["a"])
    # It runs there for the first time, or says something else.
    assert resumed.answering([]) is resumed
    assert not given(thread_id="t").answering(["a"]).resumes


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"messages": [], "tools": [], "copilotkit": {}}, {"messages": []}),
        ({"mesages": []}, {"mesages": []}),  # to be refused
        ({}, {}),
    ],
)
def test_what_pages_send_beside_the_graphs_state_is_passed_over(given: dict[str, Any], taken: dict[str, Any]) -> None:
    agent = agents_pb2.Agent(name="talk", input_type=hosted_pb2.GraphInput.DESCRIPTOR.full_name)
    agent.input_schema.update({"properties": {"messages": {}, "text": {}}})
    assert json_of(body(input=given).run_input(Assistant(agent), "t").graph.input) == taken
    agent.input_schema.update({"additionalProperties": True})
    assert json_of(body(input=given).run_input(Assistant(agent), "t").graph.input) == given


def test_what_is_wrong_is_said_once() -> None:
    violations = [FieldViolation("input.text", "is no text"), FieldViolation("input.n", "is missing")]
    told = Invalid("the input is wrong: input.text: is no text", violations=violations).body()
    assert told["detail"] == "the input is wrong: input.text: is no text: input.n: is missing"
    assert [each["field"] for each in told["errors"]] == ["input.text", "input.n"]
