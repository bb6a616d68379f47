"""What hosted graphs ask of people: all of a step at once, each answered by its schema, and the run goes on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, field_validator

from services.runtime.api.wire import run_proto
from services.runtime.engine.compatibility import problems_of_run
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.pins import Pins
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.serde import make_serde
from services.runtime.errors import ConfigTooLate, DatabaseAway, InvalidAnswer, QuestionAnswered
from services.runtime.hosted.definition import HostedDefinition
from tests.fixtures.hosted import (
    Answers,
    HostedReplica,
    Joined,
    hosted_replica,
    loaded,
    output_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_question_of_any_payload_is_answered_with_json(replica: HostedReplica) -> None:
    asked = await replica.run("letter", {"text": ""})
    assert asked.state is RunState.AWAITING_INPUT
    assert asked.input_request is not None
    assert '"action": "send"' in asked.input_request.question
    run = await replica.answer(asked, '{"type": "edit", "text": "Dear Ann"}')
    assert run.state is RunState.SUCCEEDED
    assert output_of(run) == {"text": "Dear Ann", "answer": {"type": "edit", "text": "Dear Ann"}, "sent": True}


async def test_a_text_that_is_no_json_is_an_answer_too(replica: HostedReplica) -> None:
    run = await replica.answer(await replica.run("letter", {"text": ""}), "let it go")
    assert output_of(run) == {"text": "Dear all", "answer": "let it go", "sent": True}


def asked_by(run: RunRecord) -> dict[str, str]:
    """The ids of the interrupts that a run asks with, by their payloads."""
    assert run.input_request is not None, run.error
    return {str(each["payload"]): each["id"] for each in run.input_request.interrupts}


async def test_two_questions_of_one_step_are_asked_at_once(replica: HostedReplica) -> None:
    run = await replica.run("two_questions", {})
    ids = asked_by(run)
    assert ids.keys() == {"Left?", "Right?"}
    with pytest.raises(InvalidAnswer, match="2 questions"):
        await replica.answer(run, "a")
    with pytest.raises(InvalidAnswer, match="does not ask other"):
        await replica.answer(run, answers={"other": "a"})
    run = await replica.answer(run, answers={ids["Left?"]: "a", ids["Right?"]: "b"})
    assert run.state is RunState.SUCCEEDED, run.error
    assert output_of(run)["answers"] == ["left a", "right b", "both"]


async def test_questions_of_one_step_are_answered_one_by_one(replica: HostedReplica) -> None:
    first = await replica.run("two_questions", {})
    second = await replica.answer(first, answers={asked_by(first)["Right?"]: {"said": ["b", 2]}})
    assert asked_by(second) == {"Left?": asked_by(first)["Left?"]}
    with pytest.raises(QuestionAnswered):
        # A late answer to the question before is none to this one.
        await replica.answer(first, answers={asked_by(first)["Left?"]: "late"})
    run = await replica.answer(second, "a")
    assert output_of(run)["answers"] == ["left a", "right {'said': ['b', 2]}", "both"]


async def test_what_ends_beside_a_question_does_not_run_again_with_its_answer(platform_dsn: str) -> None:
    ran = 0

    def ask(state: Answers) -> Any:
        del state
        return {"answers": [str(interrupt("What?"))]}

    def act(state: Answers) -> Any:
        nonlocal ran
        del state
        ran += 1
        return {"answers": ["acted"]}

    builder = StateGraph(Answers).add_node("ask", ask).add_node("act", act)
    builder.add_edge(START, "ask")
    builder.add_edge(START, "act")
    async with hosted_replica(platform_dsn, loaded("asks", builder)) as replica:
        asking = await replica.run("asks", {"answers": []})
        ended = await replica.answer(asking, "this")
    assert (sorted(output_of(ended)["answers"]), ran) == (["acted", "this"], 1)


async def test_all_that_is_asked_at_once_can_be_read_and_answered(platform_dsn: str) -> None:
    def ask(state: Answers) -> dict[str, Any]:
        number = state["answers"]
        return {"answers": [interrupt({"number": number, "digits": [number] * 40_000})]}

    builder = StateGraph(Answers).add_node("ask", ask)
    builder.add_conditional_edges(START, lambda state: [Send("ask", {"answers": each}) for each in state["answers"]])
    async with hosted_replica(platform_dsn, loaded("census", builder)) as replica:
        run = await replica.run("census", {"answers": list(range(1, 61))})
        assert run.input_request is not None, run.error
        assert run_proto(run).ByteSize() < 4 * 2**20
        assert len(run.input_request.question) < 10_000 + 1
        ids = [each["id"] for each in run.input_request.interrupts]
        assert len(ids) == 60
        run = await replica.answer(run, answers=dict.fromkeys(ids, "yes"))
        assert (run.state, output_of(run)["answers"][60:]) == (RunState.SUCCEEDED, ["yes"] * 60), run.error


async def test_a_run_that_asks_more_than_can_be_told_ends_with_why(platform_dsn: str) -> None:
    schema = {"enum": ["é" * 400_000]}
    builder = StateGraph(Answers)
    builder.add_node("ask", lambda state: {"answers": [interrupt(state, response_schema=schema)]})
    builder.add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("endless", builder)) as replica:
        run = await replica.run("endless", {"answers": []})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
        assert "at most 500,000 can be asked at once; ask fewer" in run.error


class Chosen(TypedDict):
    model: str


async def test_a_run_that_was_begun_goes_on_where_a_new_one_would_give_its_config_too_late(platform_dsn: str) -> None:
    builder = StateGraph(Answers, context_schema=Chosen)
    builder.add_node("ask", lambda _: {"answers": [interrupt("Go on?")]})
    builder.add_edge(START, "ask")
    graph = loaded("chosen", builder)
    async with hosted_replica(platform_dsn, graph) as before:
        run = await before.run("chosen", {"answers": []}, context={"model": "large"})
    async with hosted_replica(platform_dsn, replace(graph, made_by=frozenset({"model"}))) as replica:
        with pytest.raises(ConfigTooLate):
            await replica.create("chosen", {"answers": []}, context={"model": "large"})
        run = await replica.answer(run, "yes")
        assert (run.state, output_of(run)) == (RunState.SUCCEEDED, {"answers": ["yes"]}), run.error


async def test_an_answer_is_held_to_the_schema_of_its_question(platform_dsn: str) -> None:
    schema = {"type": "object", "properties": {"paid": {"type": "boolean"}}, "required": ["paid"]}

    def ask(state: Answers) -> dict[str, Any]:
        return {"answers": [interrupt(state["answers"], response_schema=schema), interrupt("Sure?")]}

    builder = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("payer", builder)) as replica:
        asked = await replica.run("payer", {"answers": [1]})
        assert asked.input_request is not None
        [only] = asked.input_request.interrupts
        assert (only["payload"], only["schema"]) == ([1], schema)
        for text, answers in (("yes", None), ("", {only["id"]: {"paid": "yes"}})):
            with pytest.raises(InvalidAnswer) as refused:
                await replica.answer(asked, text, answers)
            assert refused.value.violations
        again = await replica.answer(asked, answers={only["id"]: {"paid": True}})
        assert asked_by(again).keys() == {"Sure?"}
        assert again.input_request is not None
        assert again.input_request.input_request_id != asked.input_request.input_request_id
        run = await replica.answer(again, "yes")
        assert output_of(run)["answers"] == [1, {"paid": True}, "yes"]


async def test_two_questions_of_one_node_are_asked_one_after_the_other(replica: HostedReplica) -> None:
    run = await replica.answer(await replica.answer(await replica.run("one_after_the_other", {}), "a"), "b")
    assert output_of(run)["answers"] == ["a b"]


class Payment(BaseModel):
    """What somebody pays, in whole euros."""

    euros: float

    @field_validator("euros")
    @classmethod
    def _is_whole(cls, euros: float) -> float:
        if euros % 1:
            raise ValueError("no cents")
        return euros


async def test_an_answer_that_the_graphs_own_types_refuse_is_asked_for_again(platform_dsn: str) -> None:
    def ask(state: Answers) -> dict[str, Any]:
        del state
        return {"answers": [interrupt("How much?", response_schema=Payment).euros]}

    builder = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("payer", builder)) as replica:
        asked = await replica.run("payer", {"answers": []})
        again = await replica.answer(asked, '{"euros": 1.5}')
        assert again.state is RunState.AWAITING_INPUT, again.error
        run = await replica.answer(again, '{"euros": 2}')
        assert (run.state, output_of(run)["answers"]) == (RunState.SUCCEEDED, [2])


async def test_a_database_that_is_away_when_a_run_fails_ends_nothing(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy_of, asked_for = Pins.policy_of, itertools.count(1)

    async def away_at_the_failure(*given: Any) -> Any:
        if next(asked_for) == 2:
            raise DatabaseAway("as asked")
        return await policy_of(*given)

    model = FakeListChatModel(responses=["well"])

    def ask(state: Answers) -> dict[str, Any]:
        del state
        return {"answers": [model.invoke("How?").text, model.invoke("How?").text]}

    builder = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("asking", builder)) as replica:
        monkeypatch.setattr(Pins, "policy_of", away_at_the_failure)
        run = await replica.run("asking", {"answers": []}, budget={"model_calls": 1})
        assert (run.state, run.stop_reason, run.epoch) == (RunState.NEEDS_REVIEW, "budget_exhausted", 2)


async def test_state_of_pydantic_is_resumed(replica: HostedReplica) -> None:
    items = [{"name": "pen", "price": 2.5}, {"name": "bag", "price": 10}]
    asked = await replica.run("basket", {"items": items})
    assert asked.input_request is not None
    assert (asked.input_request.question, asked.input_request.options) == ("Pay 12.5?", ("yes", "no"))
    run = await replica.answer(asked, "yes")
    assert output_of(run) == {"items": items, "best": items[1], "total": 12.5, "paid": True}
    [decision] = await replica.decisions(run)
    assert (decision["destination"], decision["facts"]) == ("ask", {"total": 12.5})
    assert [(test["test"], test["held"]) for test in decision["decided"]["tests"]] == [("basket.total > 10", True)]


async def test_a_person_before_a_tool_by_langchains_middleware(replica: HostedReplica) -> None:
    asked = await replica.run("guarded", {"messages": ["Send it."]})
    assert asked.input_request is not None, asked.error
    assert "send_mail" in asked.input_request.question
    for odd in ([], [{"type": "maybe"}], [{"type": "edit"}], [{"type": "approve"}] * 2):
        with pytest.raises(InvalidAnswer):
            await replica.answer(asked, answers={asked.input_request.input_request_id: {"decisions": odd}})
    with pytest.raises(InvalidAnswer):
        await replica.answer(asked, "approve")
    assert asked.input_request.options[0] == '{"decisions": [{"type": "approve"}]}'
    run = await replica.answer(asked, asked.input_request.options[0])
    assert run.state is RunState.SUCCEEDED, run.error
    assert [message["type"] for message in output_of(run)["messages"]] == ["human", "ai", "tool", "ai"]


def stopping(**stops: Any) -> Any:
    """A graph of three nodes that was compiled to stop."""
    graph = StateGraph(Joined)
    for name in ("a", "b", "c"):
        graph.add_node(name, lambda _, name=name: {"log": [name]})
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").compile(**stops)


async def test_a_graph_that_stops_before_or_after_a_node_asks_there(platform_dsn: str) -> None:
    inner = StateGraph(Joined).add_node("inside", stopping(interrupt_before=["c"])).add_edge(START, "inside")
    brought = [
        loaded("before", stopping(interrupt_before=["b"])),
        loaded("after", stopping(interrupt_after=["b"])),
        loaded("both", stopping(interrupt_before="*", interrupt_after=["a"])),
        loaded("inner", inner),
    ]
    expected = {
        "before": [("a", "before 'b'")],
        "after": [("a b", "after 'b'")],
        "both": [("", "before 'a'"), ("a", "after 'a'"), ("a b", "before 'c'")],
        "inner": [("inside/a inside/b", "before 'c'")],
    }
    async with hosted_replica(platform_dsn, *brought) as replica:
        for name, stops in expected.items():
            run = await replica.run(name, {"log": []})
            for steps, where in stops:
                assert run.input_request is not None, name
                assert f"The graph stops {where}." in run.input_request.question
                told = await replica.steps(run)
                assert name == "inner" or told == steps.split()
                run = await replica.answer(run, "yes")
            assert (run.state, output_of(run)["log"]) == (RunState.SUCCEEDED, ["a", "b", "c"]), name


def joining(*, join: bool) -> StateGraph[Joined, None, Joined, Joined]:
    """A graph in which `end` waits for one node that has ended, and for one that asks."""
    graph = StateGraph(Joined)
    graph.add_node("quick", lambda _: {"log": ["quick"]})
    graph.add_node("slow", lambda _: {"log": ["slow"]})
    graph.add_node("ask", lambda _: {"log": [interrupt("Go on?")]})
    graph.add_node("end", lambda _: {"log": ["end"]})
    for start, to in ((START, "quick"), (START, "slow"), ("slow", "ask")):
        graph.add_edge(start, to)
    if join:
        graph.add_edge(["quick", "ask"], "end")
    else:
        graph.add_edge("ask", "end")
    return graph


async def test_a_run_that_waits_to_join_goes_on_with_a_graph_that_has_the_join(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("joining", joining(join=True))) as replica:
        run = await replica.run("joining", {"log": []})
        history = CheckpointHistory(replica.pools.steps, make_serde())
        problems = {
            join: await problems_of_run(history, run.run_id, "joining", {"joining": outline})
            for join in (True, False)
            for outline in [HostedDefinition(loaded("joining", joining(join=join))).outline]
        }
        assert problems == {True: [], False: ["'quick+ask:end' is a join of it that is gone"]}
        assert output_of(await replica.answer(run, "asked"))["log"] == ["quick", "slow", "asked", "end"]
