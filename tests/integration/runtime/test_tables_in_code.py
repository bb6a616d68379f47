"""A hosted graph whose edge is a table of the library: its limits are the agent's policy, its decisions a table's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import Field
from signalbox_routing import END, Always, Router, Rule, Several, fact, terms

from services.runtime.agents.policies import Limits, built_in, set_limits
from services.runtime.agents.registry import limits_in_shadow
from services.runtime.api.outline_wire import outline_proto
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.engine.records import RunState
from services.runtime.engine.verification import Verification
from services.runtime.hosted.definition import HostedDefinition, HostedPolicy
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.routing.explaining import Explainer
from services.runtime.routing.redeciding import with_limits
from services.runtime.routing.shadow import SHADOW_DECISIONS, Shadow
from tests.fixtures.hosted import hosted_replica, loaded


class State(TypedDict):
    """What a draft has come to."""

    rounds: int
    ratio: float


@dataclass(frozen=True)
class WriterLimits:
    """What one draft may take."""

    max_rounds: Annotated[int, Field(ge=1, le=10)] = 3


@dataclass(frozen=True)
class Known:
    """What is known after a round."""

    rounds: int = fact(lambda state: state["rounds"])
    ratio: float = fact(lambda state: state["ratio"])


f, p = terms(Known), terms(WriterLimits)
RULES = (
    Rule("max_rounds", to=Several("lint", "proof"), when=f.rounds >= p.max_rounds),
    Rule("endless", to=END, when=f.ratio > 5),
    Rule("again", to="write", when=Always()),
)


def writer(policy: Any = WriterLimits()) -> Any:
    """The graph, as a team has it."""
    graph = StateGraph(State)
    graph.add_node("write", lambda state: {"rounds": state["rounds"] + 1})
    graph.add_node("lint", lambda _: {})
    graph.add_node("proof", lambda _: {})
    graph.add_edge(START, "write")
    graph.add_conditional_edges("write", Router("my_table", facts=Known, policy=policy, rules=RULES))
    return graph.compile()


async def test_a_run_is_decided_by_the_limits_that_it_is_pinned_to(platform_dsn: str) -> None:
    definition = HostedDefinition(loaded("writer", writer()))
    limits = set_limits({"writer": {"max_rounds": 2}}, {"writer": built_in(definition.policy, definition.budget)})
    policy: Any = limits["writer"].policy
    async with hosted_replica(platform_dsn, loaded("writer", writer()), policy=policy) as replica:
        run = await replica.run("writer", {"rounds": 0, "ratio": 1.0})
        assert run.state is RunState.SUCCEEDED, run.error
        assert sorted(await replica.steps(run)) == ["lint", "proof", "write", "write"]
        first, last = await replica.decisions(run)
        assert [each["decided"]["by"] for each in (first, last)] == ["table", "table"]
        assert (first["router"], last["rule"]) == ("writer.route_after_write", "max_rounds")
        assert (last["destination"], last["grounds"]) == ("lint, proof", {"rounds": 2, "max_rounds": 2})

        [router] = replica.agents["writer"].in_force.routers
        read = {**first["grounds"], **first["rejected_rules"][0]["grounds"]}
        told = Explainer(router).stored(first["rule"], first["facts"], read, first["policy_version"], policy)
        assert told is not None
        assert [each.missed_by for each in told.rules] == ["1 of 2 rounds", "ratio is 1, wants more than 5", ""]

        ledger = Ledger(replica.pools.calls)
        replay = LedgerReplay(ledger, router, with_limits(router.policy, {"max_rounds": "1"}))
        left = [(each.run_id, each.other_destination) async for each in replay.divergences(None)]
        assert (str(run.run_id), "lint, proof") in left
        verification = Verification(ledger, {router.name: router})
        assert [each async for each in verification.disagreements(None)] == []
        assert verification.decision_count >= 2


async def test_a_replica_with_other_limits_goes_on_under_those_of_the_run(platform_dsn: str) -> None:
    def asking() -> Any:
        graph = StateGraph(State)
        graph.add_node("write", lambda state: {"rounds": state["rounds"] + 1, "ratio": float(interrupt("How good?"))})
        graph.add_node("lint", lambda _: {})
        graph.add_node("proof", lambda _: {})
        graph.add_edge(START, "write")
        graph.add_conditional_edges("write", Router("my_table", facts=Known, policy=WriterLimits(), rules=RULES))
        return graph.compile()

    definition = HostedDefinition(loaded("writer", asking()))
    limits = set_limits({"writer": {"max_rounds": 1}}, {"writer": built_in(definition.policy, definition.budget)})
    policy: Any = limits["writer"].policy
    async with hosted_replica(platform_dsn, loaded("writer", asking()), policy=policy) as replica:
        run = await replica.run("writer", {"rounds": 0, "ratio": 1.0})
        assert run.state is RunState.AWAITING_INPUT, run.error
    # Under its own limits the other would write again.
    async with hosted_replica(platform_dsn, loaded("writer", asking())) as other:
        run = await other.answer(run, "2")
        assert run.state is RunState.SUCCEEDED, run.error
        [decision] = await other.decisions(run)
        assert (decision["rule"], decision["grounds"]) == ("max_rounds", {"rounds": 1, "max_rounds": 1})


async def test_facts_that_no_ledger_keeps_still_decide(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("writer", writer())) as replica:
        session_input = {"rounds": 0, "ratio": 2.0**60}
        run = await replica.run("writer", session_input)
        assert run.state is RunState.SUCCEEDED, run.error
        [decision] = await replica.decisions(run)
        assert (decision["destination"], decision["decided"]["by"]) == (END, "code")
        assert "facts would lead to" in decision["decided"]["remark"]


def test_its_limits_are_set_within_their_bounds_shown_and_tried_in_shadow() -> None:
    definition = HostedDefinition(loaded("writer", writer(WriterLimits(4))))
    assert (definition.policy().max_rounds, definition.policy().max_steps) == (4, 1000)  # type: ignore[attr-defined]
    in_force = {"writer": Limits(definition.policy(), definition.budget)}
    with pytest.raises(ValueError, match=r"writer\.max_rounds is 11: input should be less than or equal to 10"):
        set_limits({"writer": {"max_rounds": 11}}, in_force)
    [limit] = outline_proto(definition.outline, definition.policy()).limits
    assert (limit.name, limit.value.number_value, limit.most) == ("max_rounds", 4, 10)
    tried = limits_in_shadow({"writer": {"max_rounds": 2}}, in_force, [definition])
    assert tried["writer"].max_rounds == 2  # type: ignore[attr-defined]


MOST_TRIES = 3


def by_tries(state: State) -> str:
    """A path function that is lifted: its limit is one of the code."""
    return END if state["rounds"] >= MOST_TRIES else "write"


def test_limits_of_the_code_are_tried_in_shadow_beside_those_of_tables() -> None:
    graph = StateGraph(State)
    graph.add_node("write", lambda _: {})
    graph.add_node("again", lambda _: {})
    graph.add_edge(START, "write")
    graph.add_conditional_edges("write", Router("my_table", facts=Known, policy=WriterLimits(), rules=RULES[1:]))
    graph.add_conditional_edges("again", by_tries)
    definition = HostedDefinition(loaded("tried", graph))
    in_force = {"tried": Limits(definition.policy(), definition.budget)}
    policies = limits_in_shadow({"tried": {"most_tries": 2}}, in_force, [definition])
    shadow = Shadow([definition.outline], policies)
    lifted = definition.lifted.routers["tried.route_after_again"].router
    made: Any = [
        {"router": lifted.name, "rule": each.rule, "destination": each.destination, "facts": each.facts}
        for each in (lifted.decide({"rounds": rounds}) for rounds in (1, 2, 3))
    ]
    shadow.count("tried", made)
    counted = {
        sample.labels["outcome"]: sample.value
        for metric in SHADOW_DECISIONS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["router"] == lifted.name
    }
    assert counted == {"same": 2, "other": 1, "skipped": 0}


@dataclass(frozen=True)
class Clashing(WriterLimits):
    """Limits of which one has a name that every hosted graph has."""

    max_steps: int = 5


def test_limits_that_can_not_be_told_apart_are_refused() -> None:
    with pytest.raises(InvalidAgentsError, match=r"Clashing\.max_steps has the name of a limit of HostedPolicy"):
        _ = HostedDefinition(loaded("writer", writer(Clashing()))).policy
    without = StateGraph(State)
    without.add_node("write", lambda _: {})
    without.set_entry_point("write")
    assert HostedDefinition(loaded("writer", without)).policy is HostedPolicy
