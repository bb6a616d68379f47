"""Graphs that were brought: every kind gives what LangGraph alone gives, and leaves its steps and reasons behind."""

from __future__ import annotations

import asyncio
import itertools
import operator
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict, cast

import httpx
import pytest
import pytest_asyncio
import signalbox
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeError
from langgraph.graph import START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel, Field, field_validator

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.api.wire import run_proto
from services.runtime.engine.compatibility import problems_of_run
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.engine.pins import Pins
from services.runtime.engine.records import ActiveRunPolicy, RunRecord, RunState
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.engine.verification import Verification
from services.runtime.errors import ConfigTooLate, DatabaseAway, InvalidAnswer, QuestionAnswered
from services.runtime.hosted.definition import HostedDefinition, HostedPolicy, PinnedHosted
from services.runtime.hosted.screening import admit
from services.runtime.hosted.session import current_session
from services.runtime.routing.explaining import Explainer
from services.runtime.routing.recorder import DECISIONS, StepRecord
from services.runtime.routing.redeciding import with_limits
from services.runtime.routing.run_context import RunContext
from tests.fixtures.hosted import CALLER, FOLDER, HostedReplica, graph_alone, hosted_replica, loaded, output_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(shared_platform_dsn: str) -> AsyncIterator[HostedReplica]:
    """A replica that offers the graphs of the folder."""
    async with hosted_replica(shared_platform_dsn, folder=FOLDER) as working:
        yield working


class Answers(TypedDict):
    """What was answered."""

    answers: Annotated[list[Any], operator.add]


def ways(decisions: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Where each decision led from and to, and what made it."""
    return [(row["node"], row["destination"], row["decided"]["by"]) for row in decisions]


async def test_a_model_and_its_tools(replica: HostedReplica) -> None:
    run = await replica.run("calculator", {"messages": ["Add up."], "wanted": 2})
    assert run.state is RunState.SUCCEEDED, run.error
    assert await replica.steps(run) == ["model", "tools", "model", "tools", "model"]
    assert (run.spend["model_calls"], run.spend["tool_calls"]) == (3, 2)
    assert (run.spend["input_tokens"], run.spend["output_tokens"]) == (30, 15)
    assert output_of(run)["messages"][-1]["content"] == "It is done."
    decisions = await replica.decisions(run)
    assert ways(decisions) == [
        ("model", "tools", "lifted"),
        ("model", "tools", "lifted"),
        ("model", "__end__", "lifted"),
    ]
    first, last = decisions[0], decisions[-1]
    assert first["facts"] == {"last_message_tool_calls": True, "rounds": 1}
    assert first["decided"]["remark"] == "the model asked for add"
    tests = [(test["test"], test["held"]) for test in first["decided"]["tests"]]
    assert tests == [("not last.tool_calls", False), ("state['rounds'] >= MOST_ROUNDS", False)]
    assert first["decided"]["returned"] == "'tools'"
    assert first["decided"]["source"].startswith("kinds.py:")
    assert (last["decided"]["tests"], last["decided"]["returned"]) == (
        [{"test": "not last.tool_calls", "line": first["decided"]["tests"][0]["line"], "held": True}],
        "END",
    )


async def test_the_limit_of_its_own_is_a_test_that_held(replica: HostedReplica) -> None:
    run = await replica.run("calculator", {"messages": ["Add up."], "wanted": 9})
    decisions = await replica.decisions(run)
    assert (decisions[-1]["rule"], decisions[-1]["facts"]["rounds"]) == ("most_rounds", 3)
    assert decisions[-1]["decided"]["tests"][-1]["held"]


async def test_code_is_explained_replayed_and_verified_by_its_table(replica: HostedReplica) -> None:
    run = await replica.run("calculator", {"messages": ["Add up."], "wanted": 2})
    [router] = replica.agents["calculator"].in_force.routers
    second = (await replica.decisions(run))[1]
    read = {**second["grounds"], **second["rejected_rules"][-1]["grounds"]}
    told = Explainer(router).stored(second["rule"], second["facts"], read, second["policy_version"])
    assert told is not None
    assert [rule.missed_by for rule in told.rules] == ["last_message_tool_calls is yes", "2 of 3 rounds", ""]
    assert "most_rounds 2 instead of 3" in [each.change for each in told.alternatives]
    ledger = Ledger(replica.pools.calls)
    replay = LedgerReplay(ledger, router, with_limits(router.policy, {"most_rounds": "2"}))
    left = [(each.run_id, each.sequence, each.other_destination) async for each in replay.divergences(None)]
    assert (str(run.run_id), 2, "give_up") in left
    assert replay.skipped_count == 0
    verification = Verification(ledger, {router.name: router})
    assert [each async for each in verification.disagreements(None)] == []
    assert verification.decision_count >= 3


async def test_code_that_its_table_disagrees_with_is_code_again(replica: HostedReplica) -> None:
    definition = replica.agents["rollout"].definition
    table = definition.lifted.routers["rollout.route_after_checks/lint"]
    earlier = await replica.run("rollout", {"kind": "full"})
    table.off = "the table lifted from it is in use no more: it led elsewhere"
    try:
        run = await replica.run("rollout", {"kind": "full"})
    finally:
        table.off = ""
    assert run.state is RunState.SUCCEEDED
    by_code = (await replica.decisions(run))[1]
    assert (by_code["decided"]["by"], by_code["policy_version"], by_code["facts"]) == ("code", "", {"kind": "full"})
    assert "in use no more" in by_code["decided"]["remark"]
    # What code decided is no table's to decide once more, though its facts look alike.
    async with Ledger(replica.pools.calls).decisions_of(table.router.name, None) as stored:
        decided = {each.run_id async for each in stored}
    assert str(run.run_id) not in decided
    assert str(earlier.run_id) in decided


async def test_nodes_that_say_where_to_go(replica: HostedReplica) -> None:
    run = await replica.run("supervisor", {"todo": ["writer", "critic"], "done": []})
    assert output_of(run)["done"] == ["writer", "critic"]
    assert ways(await replica.decisions(run)) == [
        ("chief", "writer", "command"),
        ("writer", "chief", "command"),
        ("chief", "critic", "command"),
        ("critic", "chief", "command"),
        ("chief", "__end__", "command"),
    ]


async def test_packets_are_counted(replica: HostedReplica) -> None:
    run = await replica.run("digest", {"words": ["one", "three", "", "four"]})
    assert output_of(run)["total"] == 12
    [decision] = await replica.decisions(run)
    assert decision["decided"]["destinations"] == [{"node": "measure", "count": 3}]
    assert decision["decided"]["by"] == "fan_out"
    assert await replica.steps(run) == ["split", "measure", "measure", "measure", "sum"]


async def test_a_question_of_any_payload_is_answered_with_json(replica: HostedReplica) -> None:
    asked = await replica.run("letter", {"text": ""})
    assert asked.state is RunState.AWAITING_INPUT
    assert asked.input_request is not None
    assert '"action": "send"' in asked.input_request.question
    run = await replica.answer(asked, '{"type": "edit", "text": "Dear Ann"}')
    assert run.state is RunState.SUCCEEDED
    assert output_of(run) == {"text": "Dear Ann", "answer": {"type": "edit", "text": "Dear Ann"}, "sent": True}


async def test_a_context_is_read_from_the_config_too_but_for_what_is_langgraphs_own(platform_dsn: str) -> None:
    class Told(TypedDict, total=False):
        model: str
        thread_id: str
        checkpoint_id: str

    def tell(state: Answers, config: RunnableConfig) -> dict[str, Any]:
        del state
        return {"answers": [config["configurable"]["model"], config["configurable"]["thread_id"]]}

    def by_model(state: Answers, config: RunnableConfig) -> str:
        del state
        return "large" if config["configurable"]["model"] == "large" else "__end__"

    graph = StateGraph(Answers, context_schema=Told).add_node("tell", tell)
    graph.add_node("large", lambda _: {"answers": ["large"]})
    graph.add_edge(START, "tell").add_conditional_edges("tell", by_model, ["large", "__end__"])
    async with hosted_replica(platform_dsn, loaded("told", graph)) as replica:
        context = {"model": "large", "thread_id": "another's", "checkpoint_id": "x"}
        run = await replica.run("told", {"answers": []}, context=context)
        assert output_of(run)["answers"] == ["large", str(run.run_id), "large"]


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


async def test_state_of_a_dataclass_context_and_an_asynchronous_path_function(replica: HostedReplica) -> None:
    run = await replica.run("trip", {}, context={"name": "Ann"})
    assert output_of(run)["log"] == ["Ann by train for 100", "Ann by train for 100", "in Bonn"]
    decisions = await replica.decisions(run)
    assert ways(decisions) == [("travel", "travel", "lifted"), ("travel", "arrive", "lifted")]
    # It shares its thread, and is not followed; what it read is known.
    assert (decisions[0]["facts"]["stops_count"], "tests" in decisions[0]["decided"]) == (1, False)


async def test_context_is_checked(replica: HostedReplica) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await replica.create("trip", {}, context={"budget": "much"})
    assert {violation.field for violation in refused.value.violations} == {
        "input.graph.context",
        "input.graph.context.budget",
    }


async def test_input_is_checked_by_the_graphs_own_schema(replica: HostedReplica) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await replica.create("digest", {"words": ["a", 3], "word": "b"})
    assert {violation.field for violation in refused.value.violations} == {
        "input.graph.input",
        "input.graph.input.words[1]",
    }


async def test_one_that_a_context_manager_gives_has_the_environment_of_its_file(replica: HostedReplica) -> None:
    assert output_of(await replica.run("greeting", {"name": "Ann"}))["text"] == "Good day, Ann"


@pytest.mark.parametrize(("agent", "said"), [("farewell", "Farewell, Ann"), ("shouting", "ANN")])
async def test_one_that_a_context_manager_or_an_object_gives(replica: HostedReplica, agent: str, said: str) -> None:
    assert output_of(await replica.run(agent, {"name": "Ann"}))["text"] == said


async def test_a_graph_inside_branches_that_join_and_an_entry_that_decides(replica: HostedReplica) -> None:
    run = await replica.run("rollout", {"kind": "full", "log": []})
    assert sorted(output_of(run)["log"][:-1]) == ["build", "lint", "types"]
    assert output_of(run)["log"][-1] == "publish"
    assert ways(await replica.decisions(run)) == [
        ("__start__", "checks, build", "lifted"),
        ("checks/lint", "types", "lifted"),
    ]
    assert (await replica.decisions(run))[1]["rule"] == "to_types"
    quick = await replica.run("rollout", {"kind": "quick", "log": []})
    assert [row["destination"] for row in await replica.decisions(quick)] == ["checks, build", "__end__"]
    assert ways(await replica.decisions(await replica.run("rollout", {"kind": "none", "log": []}))) == [
        ("__start__", "nothing", "lifted")
    ]


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


async def test_an_agent_of_langchain(replica: HostedReplica) -> None:
    run = await replica.run("assistant", {"messages": [{"role": "user", "content": "Add up."}]})
    assert run.state is RunState.SUCCEEDED, run.error
    assert (run.spend["model_calls"], run.spend["tool_calls"]) == (3, 2)


async def test_a_node_that_leaves_its_graph_keeps_its_step(replica: HostedReplica) -> None:
    run = await replica.run("leaving", {"log": []})
    # As LangGraph has it: what else the graph inside has changed goes no farther.
    assert output_of(run)["log"] == ["left", "after"]
    assert await replica.steps(run) == ["desk/first", "desk/leave", "desk", "after"]
    assert ways(await replica.decisions(run)) == [("desk/leave", "after", "command")]


async def test_what_is_no_node_is_not_gone_to(replica: HostedReplica) -> None:
    for number in range(3):
        run = await replica.run("straying", {"to": f"nowhere {number} " + "x" * 3000})
        assert run.state is RunState.SUCCEEDED
        [decision] = await replica.decisions(run)
        assert (decision["rule"], decision["destination"]) == ("?", "__end__")
        assert decision["decided"]["remark"].startswith(
            f"unknown destination, no node of the graph: nowhere {number} x"
        )
        assert len(decision["decided"]["remark"]) < 200
    both = await replica.run("straying", {"to": ["second", "nowhere", 3]})
    assert await replica.steps(both) == ["first", "second"]
    by_path, by_command = await replica.decisions(both)
    assert (by_path["rule"], by_path["destination"]) == ("second, ?", "second")
    assert by_path["decided"]["remark"] == "unknown destination, no node of the graph: nowhere and 1 more"
    assert (by_command["rule"], by_command["destination"]) == ("command", "__end__")
    assert "\0" not in by_command["decided"]["remark"]
    # None of it is a series of its own.
    counted = {
        (sample.labels["rule"], sample.labels["destination"])
        for metric in DECISIONS.collect()
        for sample in metric.samples
        if sample.labels.get("agent") == "straying"
    }
    assert counted == {("?", "__end__"), ("second, ?", "second"), ("command", "__end__")}


async def test_a_node_that_raises_ends_the_run_with_its_step_and_its_cost(replica: HostedReplica) -> None:
    run = await replica.run("failing", {})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert run.error.startswith("the node 'fail' raised ValueError at kinds.py:")
    assert "a secret" not in run.error
    assert (run.spend["model_calls"], run.spend["input_tokens"]) == (1, 10)
    assert await replica.steps(run) == ["begin", "fail"]
    [decision] = await replica.decisions(run)
    assert (decision["rule"], decision["facts"]) == ("node_failed", {"error_reason": "ValueError"})


async def test_what_would_end_the_process_ends_its_run(replica: HostedReplica) -> None:
    for place, last in (
        ("node", "leave"),
        ("panic", "leave"),
        ("leave_by_tool", "tools"),
        ("panic_by_tool", "tools"),
        ("leave_by_coroutine", "tools"),
        ("path", "tools"),
    ):
        run = await replica.run("exiting", {"messages": [], "place": place})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed"), place
        assert "raised NodeExited at kinds.py:" in run.error
        assert (await replica.steps(run))[-1] == last


async def test_what_nodes_change_in_place_is_there_when_they_go_on(platform_dsn: str) -> None:
    class Notes(TypedDict, total=False):
        items: list[dict[str, int]]
        by_name: dict[str, dict[str, int]]
        messages: Annotated[list[AIMessage], operator.add]
        found: list[str]

    def make(state: Notes) -> dict[str, Any]:
        del state
        numbers = range(6)
        return {
            "items": [{"number": number} for number in numbers],
            "by_name": {str(number): {"number": number} for number in numbers},
            "messages": [AIMessage(str(number)) for number in numbers],
            "found": [str(number) for number in numbers],
        }

    def change(state: Notes) -> dict[str, Any]:
        state["items"][1]["number"] = 10
        state["by_name"]["2"]["number"] = 20
        state["messages"][3].content = "thirty"
        state["found"].append("more")
        return {**state, "messages": [AIMessage("more")]}

    def told(state: Notes) -> dict[str, Any]:
        interrupt("Go on?")
        said = [message.text for message in state["messages"]]
        return {"found": [str(state["items"]), str(state["by_name"]), *said, *state["found"]]}

    graph = StateGraph(Notes).add_node("make", make).add_node("change", change).add_node("told", told)
    graph.add_edge(START, "make").add_edge("make", "change").add_edge("change", "told")
    alone = {"configurable": {"thread_id": "alone"}}
    plain = graph.compile(checkpointer=InMemorySaver())
    await plain.ainvoke({}, cast(RunnableConfig, alone))
    expected = await plain.ainvoke(Command(resume="yes"), cast(RunnableConfig, alone))
    async with hosted_replica(platform_dsn, loaded("notes", graph)) as replica:
        run = await replica.answer(await replica.run("notes", {}), "yes")
    assert output_of(run)["found"] == expected["found"]
    assert {"thirty", "more"} < set(expected["found"])


async def test_values_that_not_every_place_can_take_are_brought_all_the_same(replica: HostedReplica) -> None:
    expected = {
        "half of a pair": ("a b", "a b"),
        "nul": ("a b", "a b"),
        "no numbers": (["nan", {"inside": "inf"}], {"count": 2, "last": {"inside": "inf"}}),
        "exact": (str(2**60 + 1), str(2**60 + 1)),
        "keys": ([{"1": "a", "1,2": "b", "None": "c"}, [1, 2]], {"count": 2, "last": {"count": 2}}),
    }
    for kind, (brought, fact) in expected.items():
        run = await replica.run("extreme", {"kind": kind})
        assert (run.state, output_of(run)["value"]) == (RunState.SUCCEEDED, brought), run.error
        [decision] = await replica.decisions(run)
        assert decision["facts"]["value"] == fact
    refused = await replica.run("extreme", {"kind": "too long for a checkpoint"})
    assert (refused.state, refused.error) == (
        RunState.FAILED,
        "the state holds what can't be stored: Integer exceeds 64-bit range",
    )
    nothing = await replica.run("empty", {})
    assert (nothing.state, output_of(nothing)) == (RunState.SUCCEEDED, {})


async def test_attempts_of_a_node_that_is_retried_are_paid_for(replica: HostedReplica) -> None:
    run = await replica.run("mended", {})
    assert (run.state, run.spend["model_calls"]) == (RunState.SUCCEEDED, 2)
    assert await replica.steps(run) == ["try"]


async def test_a_node_is_tried_again_in_a_graph_that_keeps_no_checkpoints(platform_dsn: str) -> None:
    tries: list[str] = []

    def refuse_once(state: Answers) -> dict[str, Any]:
        del state
        tries.append("one")
        if len(tries) == 1:
            raise ConnectionError("as asked")
        return {"answers": [1]}

    inside = StateGraph(Answers)
    inside.add_node("one", refuse_once, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.01))
    around = StateGraph(Answers).add_node("inside", inside.add_edge(START, "one").compile(checkpointer=False))
    async with hosted_replica(platform_dsn, loaded("again", around.add_edge(START, "inside"))) as replica:
        run = await replica.run("again", {"answers": []})
    assert (run.state, output_of(run), len(tries)) == (RunState.SUCCEEDED, {"answers": [1]}, 2), run.error


async def test_a_packet_keeps_the_limit_of_its_own(platform_dsn: str) -> None:
    async def wait(state: Answers) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"answers": state["answers"]}

    graph = StateGraph(Answers).add_node("wait", wait)
    graph.add_conditional_edges(START, lambda state: [Send("wait", state, timeout=0.05)], ["wait"])
    async with hosted_replica(platform_dsn, loaded("packet", graph)) as replica:
        run = await replica.run("packet", {"answers": []})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert "NodeTimeoutError" in run.error


async def test_what_is_taken_from_a_cache_is_a_step_of_its_run_that_cost_nothing(platform_dsn: str) -> None:
    model, cache = FakeListChatModel(responses=["It is done."]), InMemoryCache[Any]()

    def answering(words: str) -> StateGraph[Any, Any, Any, Any]:
        async def ask(state: Answers) -> dict[str, Any]:
            del state
            return {"answers": [f"{words} {(await model.ainvoke('?')).content}"]}

        def leave(state: Answers) -> dict[str, Any]:
            del state
            return {"answers": []}

        graph = StateGraph(Answers).add_node("ask", ask, cache_policy=CachePolicy()).add_node("leave", leave)
        graph.add_edge(START, "ask")
        return graph.add_conditional_edges(
            "ask", lambda state: "leave" if state["answers"] else "ask", ["leave", "ask"]
        )

    # One cache of both, as a folder may have it; what was found for one caller is not told another.
    graphs = [loaded(words, answering(words).compile(cache=cache)) for words in ("well", "so")]
    runs = []
    async with hosted_replica(platform_dsn, *graphs) as replica:
        others = Caller("28"), Caller("27", frozenset({"analyst"})), Caller("27", claims={"tenant": "a"})
        for name, caller in (("well", CALLER), ("well", CALLER), ("so", CALLER), *(("well", each) for each in others)):
            run = await replica.run(name, {"answers": []}, caller=caller)
            assert await replica.steps(run) == ["ask", "leave"], run.error
            [decision] = await replica.decisions(run)
            runs.append((output_of(run)["answers"], run.spend["model_calls"], decision))
    assert [(answers, calls) for answers, calls, _ in runs] == [
        (["well It is done."], 1),
        (["well It is done."], 0),
        (["so It is done."], 1),
        *[(["well It is done."], 1)] * 3,
    ]
    assert len({decision["decision_id"] for _, _, decision in runs}) == 6
    remarks = [decision["decided"].get("remark", "") for _, _, decision in runs]
    assert ["from the graph's cache" in each for each in remarks] == [False, True, False, False, False, False]


async def test_what_an_endpoint_had_cached_is_told_with_its_call(platform_dsn: str) -> None:
    usage = {"input_tokens": 90, "output_tokens": 2, "total_tokens": 92, "input_token_details": {"cache_read": 80}}
    said = AIMessage("It is done.", usage_metadata=cast(UsageMetadata, usage))

    async def ask(state: Answers) -> dict[str, Any]:
        del state
        return {"answers": [(await FakeMessagesListChatModel(responses=[said]).ainvoke("?")).text]}

    graph = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("cached", graph)) as replica:
        run = await replica.run("cached", {"answers": []})
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(
                "SELECT payload -> 'calls' FROM platform.run_events WHERE run_id = %s AND kind = 'node_completed'",
                [run.run_id],
            )
            [[[call]]] = await cursor.fetchall()
    assert (call["input_tokens"], call["cached_tokens"], call["output_tokens"]) == (90, 80, 2)


async def test_state_that_nobody_could_read_again_is_refused_when_it_is_saved(replica: HostedReplica) -> None:
    run = await replica.run("odd_state", {})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert "Unreadable" in run.error


async def test_the_budget_is_looked_at_before_each_call(replica: HostedReplica) -> None:
    run = await replica.run("calculator", {"messages": ["Add up."], "wanted": 2}, budget={"model_calls": 2})
    assert (run.state, run.stop_reason) == (RunState.NEEDS_REVIEW, "budget_exhausted")
    assert run.spend["model_calls"] == 2
    last = (await replica.decisions(run))[-1]
    assert (last["rule"], last["facts"]) == ("budget_exhausted", {"budget_spent": "model_calls"})
    # What it had brought by then is there to be looked at.
    assert len(output_of(run)["messages"]) == 5


async def test_effects_at_once_are_held_to_the_budget(platform_dsn: str) -> None:
    sent: list[int] = []

    @signalbox.effect
    async def send(number: int) -> None:
        await asyncio.sleep(0.01)
        sent.append(number)

    async def ask(state: Answers) -> dict[str, Any]:
        del state
        told = await asyncio.gather(*map(send, range(5)), return_exceptions=True)
        raise next(error for error in told if error is not None)

    builder = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("sender", builder)) as replica:
        run = await replica.run("sender", {"answers": []}, budget={"tool_calls": 2})
        assert (run.state, run.stop_reason) == (RunState.NEEDS_REVIEW, "budget_exhausted")
        assert (len(sent), run.spend["tool_calls"]) == (2, 2)


async def test_a_run_that_takes_too_many_steps_ends(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, folder=FOLDER, policy=HostedPolicy(max_steps=3)) as replica:
        run = await replica.run("calculator", {"messages": ["Add up."]})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "recursion_limit")


async def test_a_graph_keeps_the_limit_that_it_was_given_with_its_config(platform_dsn: str) -> None:
    graph = StateGraph(Joined).add_node("again", lambda _: {"log": ["again"]}).add_edge(START, "again")
    graph.add_conditional_edges("again", lambda _: "again", ["again"])
    limited = graph.compile().with_config({"recursion_limit": 4})
    async with hosted_replica(platform_dsn, loaded("limited", limited)) as replica:
        run = await replica.run("limited", {"log": []})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "recursion_limit")
        assert await replica.steps(run) == ["again"] * 4


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


async def test_nodes_that_block_for_good_leave_room_for_others(platform_dsn: str) -> None:
    release = threading.Event()
    graph = StateGraph(Joined).add_node(
        "hang", lambda state: release.wait() and state if state["log"] else {"log": ["ok"]}
    )
    brought = loaded("hanging", graph.add_edge(START, "hang"))
    policy = HostedPolicy(node_timeout_s=1)
    try:
        async with hosted_replica(platform_dsn, brought, policy=policy, threads=2) as replica:
            hung = await asyncio.gather(*(replica.run("hanging", {"log": ["hang"]}) for _ in range(3)))
            assert {(run.state, run.stop_reason) for run in hung} == {(RunState.FAILED, "node_failed")}
            assert "the node 'hang' raised NODE_TIMED_OUT" in hung[0].error
            assert output_of(await replica.run("hanging", {"log": []}))["log"] == ["ok"]
    finally:
        release.set()


async def test_a_step_that_changes_too_much_of_the_state_ends_its_run(platform_dsn: str) -> None:
    graph = StateGraph(Joined).add_node("grow", lambda _: {"log": ["x" * 20_000]}).add_edge(START, "grow")
    policy = HostedPolicy(max_step_bytes=10_000)
    async with hosted_replica(platform_dsn, loaded("growing", graph), policy=policy) as replica:
        run = await replica.run("growing", {"log": []})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
        assert run.error.endswith("the limit max_step_bytes is 10,000")
        assert await replica.steps(run) == ["grow"]


async def test_results_of_effects_are_held_to_a_size(platform_dsn: str) -> None:
    @signalbox.effect
    async def print_out(size: int) -> str:
        return "x" * size

    async def work(state: Joined) -> dict[str, Any]:
        await print_out(int(state["log"][0]))
        return {"log": []}

    graph = StateGraph(Joined).add_node("work", work).add_edge(START, "work")
    policy = HostedPolicy(max_step_bytes=10_000)
    async with hosted_replica(platform_dsn, loaded("printer", graph), policy=policy) as replica:
        run = await replica.run("printer", {"log": ["20000"]})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
        assert "an effect has a result of 20,0" in run.error
        run = await replica.run("printer", {"log": ["9000"]})
        assert run.state is RunState.SUCCEEDED, run.error


class Joined(TypedDict):
    log: Annotated[list[str], operator.add]


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


class Away(FakeListChatModel):
    """A model whose endpoint is away at first."""

    asked: list[int] = Field(default_factory=list)

    def _call(self, *arguments: Any, **named: Any) -> str:
        self.asked.append(1)
        if len(self.asked) < 3:
            raise httpx.ConnectError("refused")
        return super()._call(*arguments, **named)


async def test_a_model_whose_endpoint_is_away_is_waited_for(platform_dsn: str) -> None:
    model = Away(responses=["back"])

    def ask(state: Joined) -> dict[str, Any]:
        del state
        return {"log": [model.invoke("Are you there?").text]}

    graph = StateGraph(Joined).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("away", graph)) as replica:
        run = await replica.run("away", {"log": []})
        assert (run.state, output_of(run)["log"]) == (RunState.SUCCEEDED, ["back"])
        assert (run.epoch, await replica.steps(run)) == (3, ["ask"])


class Counting(Joined):
    """What nodes log, and how many steps are left."""

    remaining_steps: RemainingSteps


async def test_steps_are_counted_on_whoever_goes_on_as_langgraph_counts_them(platform_dsn: str) -> None:
    def counting(model: FakeListChatModel) -> StateGraph[Counting, None, Counting, Counting]:
        def count(state: Counting) -> dict[str, Any]:
            return {"log": [str(state["remaining_steps"])]}

        def wait(state: Counting) -> dict[str, Any]:
            return {"log": [f"{model.invoke('Are you there?').text} {state['remaining_steps']}"]}

        def ask(state: Counting) -> dict[str, Any]:
            return {"log": [f"{interrupt('Go on?')} {state['remaining_steps']}"]}

        inside = StateGraph(Counting).add_node("within", count).add_edge(START, "within").compile()
        graph = StateGraph(Counting)
        graph.add_node("begin", count)
        graph.add_node("wait", wait)
        graph.add_node("inside", inside)
        graph.add_node("ask", ask)
        for start, to in (START, "begin"), ("begin", "wait"), ("wait", "inside"), ("inside", "ask"):
            graph.add_edge(start, to)
        return graph

    alone: Any = counting(FakeListChatModel(responses=["back"])).compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 40}
    await alone.ainvoke({"log": []}, config)
    expected = await alone.ainvoke(Command(resume="yes"), config)
    brought = loaded("counting", counting(Away(responses=["back"])))
    async with hosted_replica(platform_dsn, brought, policy=HostedPolicy(max_steps=40)) as replica:
        asked = await replica.run("counting", {"log": []})
        assert asked.epoch == 3
        assert output_of(await replica.answer(asked, "yes"))["log"] == expected["log"]


class Gone(FakeListChatModel):
    """A model whose endpoint stays away."""

    def _call(self, *_arguments: Any, **_named: Any) -> str:
        raise httpx.ConnectError("refused")


@pytest.fixture
def screenings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that a guard was asked about which lets all in, for all hosted graphs."""
    texts: list[str] = []

    async def allowed(_run: RunContext, text: str) -> Any:
        texts.append(text)
        return SimpleNamespace(allowed=True, reason="")

    async def screened(_agent: Any, context: RunContext, *_given: Any) -> StepRecord:
        session, guard = current_session(), SimpleNamespace(screen=allowed)
        assert session is not None
        return await admit(session, guard, context, "screened", "ask", "Are you there?")  # type: ignore[arg-type]

    monkeypatch.setattr(PinnedHosted, "admit", screened)
    return texts


async def test_the_guard_is_asked_once_however_often_a_run_is_taken_up(
    platform_dsn: str, screenings: list[str]
) -> None:
    graph = StateGraph(Joined).add_edge(START, "quick").add_edge(START, "ask")
    graph.add_node("quick", lambda _: {"log": ["quick"]})
    graph.add_node("ask", lambda _: {"log": [interrupt("Go on?")]})
    async with hosted_replica(platform_dsn, loaded("screened", graph)) as replica:
        asked = await replica.run("screened", {"log": []})
        assert [row["node"] for row in await replica.decisions(asked)] == ["screen_input"]
        ended = await replica.answer(asked, "asked")
        assert sorted(output_of(ended)["log"]) == ["asked", "quick"]
        assert sorted(await replica.steps(ended)) == ["ask", "quick", "screen_input"]
        assert len(screenings) == 1


@pytest.mark.usefixtures("screenings")
async def test_what_a_screened_run_waits_for_uses_up_its_time(platform_dsn: str) -> None:
    def ask(state: Joined) -> dict[str, Any]:
        del state
        return {"log": [Gone(responses=["never"]).invoke("Are you there?").text]}

    graph = StateGraph(Joined).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("screened", graph)) as replica, asyncio.timeout(30):
        run = await replica.run("screened", {"log": []}, budget={"wall_time_s": 2})
        assert (run.state, run.epoch > 2) == (RunState.FAILED, True)
        assert [row["node"] for row in await replica.decisions(run)] == ["screen_input", "ask"]


async def test_a_node_that_handles_the_failure_of_another_has_its_step_before_its_own(platform_dsn: str) -> None:
    def fail(state: Joined) -> dict[str, Any]:
        raise ValueError(state)

    def handle(state: Joined, error: NodeError) -> Command[str]:
        del state
        return Command(update={"log": [type(error.error).__name__]}, goto="end")

    graph = StateGraph(Joined)
    graph.add_node("fail", fail, error_handler=handle)
    graph.add_node("end", lambda _: {"log": ["end"]})
    graph.add_edge(START, "fail")
    async with hosted_replica(platform_dsn, loaded("handled", graph)) as replica:
        run = await replica.run("handled", {"log": []})
        assert (run.state, output_of(run)["log"]) == (RunState.SUCCEEDED, ["ValueError", "end"]), run.error
        steps = await replica.steps(run)
        assert (steps[0], steps[-1], len(steps)) == ("fail", "end", 3)


async def test_what_its_steps_cost_adds_up_to_what_the_run_has_spent(replica: HostedReplica) -> None:
    run = await replica.run("slow_chain", {"until": 3})
    assert output_of(run)["messages"][-1]["content"] == str(1 + 2 + 3 + 1 + 4 + 9)
    async with replica.pools.calls.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*), count(DISTINCT sequence), max(sequence) FROM platform.run_events WHERE run_id = %s",
            [run.run_id],
        )
        row = await cursor.fetchone()
    assert row is not None
    assert row[0] == row[1] == row[2] == run.event_count
    assert run.spend["model_calls"] == 3


async def turn(replica: HostedReplica, text: str, **changes: Any) -> RunRecord:
    """A run of the graph that talks; what fails or asks leaves off there."""
    return await replica.run("talk", {"messages": [text], "text": text}, **changes)


def said(output: Any) -> list[str]:
    """What the messages of a state say."""
    return [each["content"] if isinstance(each, dict) else each.content for each in output["messages"]]


async def test_a_thread_goes_on_as_langgraphs_does(replica: HostedReplica) -> None:
    alone = graph_alone("threads", "talk").compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    # After one that failed, and after one that was cancelled while it asked.
    for text in ("one", "fail", "two", "ask", "three", "where"):
        run = await turn(replica, text, thread_id="1", active_run_policy=ActiveRunPolicy.CANCEL_ACTIVE)
        try:
            expected = await alone.ainvoke({"messages": [text], "text": text}, config)
        except ValueError:
            assert run.state is RunState.FAILED
            continue
        if "__interrupt__" in expected:
            assert run.state is RunState.AWAITING_INPUT
            continue
        output = output_of(run)
        assert said(output) == said(expected)
        assert (output["turns"], output["seen"]) == (expected["turns"], expected["seen"])
        assert await replica.steps(run) == ["count", "remember/note", "remember", "reply"]
    # Another thread, and a run of none, begin with their input.
    assert output_of(await turn(replica, "new", thread_id="2"))["turns"] == 1
    assert output_of(await turn(replica, "new"))["turns"] == 1


class Around(TypedDict):
    text: str
    seen: list[str]


class Noted(TypedDict):
    text: str
    noted: Annotated[list[str], operator.add]
    seen: list[str]


def note(state: Noted) -> dict[str, Any]:
    return {"noted": [state["text"]], "seen": [*state["noted"], state["text"]]}


def keeping(*, called_by_a_node: bool) -> StateGraph[Any]:
    """A graph with one inside that keeps its state from run to run, as a node or called by one."""
    inner = StateGraph(Noted).add_node("note", note).add_edge(START, "note").compile(checkpointer=True)

    async def call(state: Around) -> dict[str, Any]:
        return {"seen": (await inner.ainvoke({"text": state["text"], "noted": [], "seen": []}))["seen"]}

    made = StateGraph(Around).add_node("before", lambda state: {"text": state["text"]})
    made.add_node("inside", call if called_by_a_node else inner)
    return made.add_edge(START, "before").add_edge("before", "inside")


@pytest.mark.parametrize("called_by_a_node", [False, True])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_graph_inside_that_keeps_its_state_goes_on_after_a_death_with_its_input(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch, *, called_by_a_node: bool, begun: bool
) -> None:
    graph = loaded("keeping", keeping(called_by_a_node=called_by_a_node))
    put, reached = RunSaver.aput, asyncio.Event()

    async def held(saver: RunSaver, config: RunnableConfig, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        if config["configurable"].get("checkpoint_ns") == "inside" and (metadata["source"] == "loop") == begun:
            reached.set()
            await asyncio.Event().wait()
        return await put(saver, config, checkpoint, metadata, versions)

    async with hosted_replica(platform_dsn, graph) as replica:
        await replica.run("keeping", {"text": "one"}, thread_id="t")
        monkeypatch.setattr(RunSaver, "aput", held)
        run = await replica.create("keeping", {"text": "two"}, thread_id="t")
        await asyncio.wait_for(reached.wait(), 20)
    monkeypatch.setattr(RunSaver, "aput", put)
    async with hosted_replica(platform_dsn, graph) as replica:
        assert output_of(await replica.left_off(run))["seen"] == ["one", "two"]
        after = await replica.run("keeping", {"text": "three"}, thread_id="t")
        assert output_of(after)["seen"] == ["one", "two", "three"]


async def test_runs_of_a_thread_wait_for_the_state_of_the_one_before(replica: HostedReplica) -> None:
    queued: dict[str, Any] = {"thread_id": "q", "active_run_policy": ActiveRunPolicy.QUEUE}
    asked = await turn(replica, "ask", **queued)
    runs = [
        await replica.create("talk", {"messages": [text], "text": text}, **queued) for text in ("after", "and after")
    ]
    answered = await replica.answer(asked, "this")
    assert said(output_of(answered)) == ["ask", "You said this."]
    first, second = [output_of(await replica.left_off(run)) for run in runs]
    assert (first["turns"], second["turns"]) == (2, 3)
    assert second["seen"] == ["ask", "after", "and after"]
    assert said(second)[:4] == ["ask", "You said this.", "after", "3 messages, 2 turns"]


async def test_what_needs_more_rights_than_a_run_has_is_not_in_its_state(replica: HostedReplica) -> None:
    plain, with_more = Caller("27", frozenset()), Caller("27", frozenset({"secrets"}))
    for caller, text, turns in ((plain, "one", 1), (with_more, "a secret", 2), (plain, "two", 2)):
        run = await turn(replica, text, thread_id="r", caller=caller)
        assert output_of(run)["turns"] == turns
    assert "a secret" not in said(output_of(run))


async def test_a_thread_whose_state_is_gone_says_so(replica: HostedReplica) -> None:
    run = await turn(replica, "one", thread_id="g")
    pruner = Pruner(
        replica.pools.calls,
        CheckpointHistory(replica.pools.steps, make_serde()),
        {"default": RetentionPolicy(history_minutes=1e-6, checkpoint_days=1e-9)},
    )
    await pruner.prune(wait=True)
    lost = await turn(replica, "two", thread_id="g")
    assert (lost.state, lost.stop_reason) == (RunState.FAILED, "thread_state_gone")
    assert run.run_id in lost.error


class Kept(TypedDict, total=False):
    count: Annotated[int, operator.add]


class KeptOtherwise(TypedDict, total=False):
    count: Annotated[list[int], operator.add]


class KeptAndMore(Kept, total=False):
    name: str


async def test_other_code_goes_on_with_a_threads_state_where_its_channels_fit(platform_dsn: str) -> None:
    def version(state: type, added: Any) -> StateGraph[Any, None, Any, Any]:
        return StateGraph(state).add_node("add", lambda _: {"count": added}).add_edge(START, "add")

    for state, added, ended in (
        (Kept, 1, ("SUCCEEDED", {"count": 1.0})),
        (KeptAndMore, 10, ("SUCCEEDED", {"count": 11.0})),
        (KeptOtherwise, [1], ("FAILED", "thread_state_unfit")),
    ):
        async with hosted_replica(platform_dsn, loaded("kept", version(state, added))) as replica:
            run = await replica.run("kept", {}, thread_id="k")
            assert (run.state, output_of(run) if run.output else run.stop_reason) == ended
    assert "count is int, not" in run.error
