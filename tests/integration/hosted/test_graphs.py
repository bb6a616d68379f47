"""Graphs that were brought: every kind gives what LangGraph alone gives, and leaves its steps and reasons behind."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph

from services.kit.errors import InvalidRequest
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.engine.records import RunState
from services.runtime.engine.verification import Verification
from services.runtime.routing.explaining import Explainer
from services.runtime.routing.recorder import DECISIONS
from services.runtime.routing.redeciding import with_limits
from tests.fixtures.hosted import (
    Answers,
    HostedReplica,
    hosted_replica,
    loaded,
    output_of,
    ways,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


async def test_an_agent_of_langchain(replica: HostedReplica) -> None:
    run = await replica.run("assistant", {"messages": [{"role": "user", "content": "Add up."}]})
    assert run.state is RunState.SUCCEEDED, run.error
    assert (run.spend["model_calls"], run.spend["tool_calls"]) == (3, 2)


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
