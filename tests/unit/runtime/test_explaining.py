"""Explanations: every rule in words, by how much it was missed, and what would have led elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Annotated, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from signalbox_routing.explaining import Alternative
from signalbox_routing.table import END, STOP_REASON, Router, Rule, State, either
from signalbox_routing.terms import Always, Condition, terms
from signalbox_routing.words import in_words

from services.runtime.routing.digest import policy_version
from services.runtime.routing.explaining import Explainer
from tests.fixtures.decided import ROUTERS, facts_of, first_rule, policies_of


@dataclass(frozen=True)
class Facts:
    """What the table knows."""

    iteration_count: int = 0
    error_attempts: int = 0
    rejection_streak: int = 0
    confidence: float = 0.75
    tool: str = ""
    done: bool = False


@dataclass(frozen=True)
class Policy:
    """What the table holds it against."""

    max_iterations: int = 3
    least_confidence: float = 0.7


f, p = terms(Facts), terms(Policy)


def _facts(_: State) -> Facts:
    return Facts()


def router(*conditions: Condition) -> Router[Facts, Policy]:
    """A table with these conditions, in order."""
    rules = [Rule(f"rule_{number}", f"work_{number}", when) for number, when in enumerate(conditions)]
    return Router("agent.route", facts=_facts, policy=Policy(), rules=[*rules, Rule("otherwise", END, Always())])


TWICE = "done is no, done is no, tool is empty"
SAID: list[tuple[Condition, Facts, str, str]] = [
    (f.iteration_count >= p.max_iterations, Facts(2), "iteration_count >= max_iterations (3)", "2 of 3 iterations"),
    (f.iteration_count > p.max_iterations, Facts(3), "iteration_count > max_iterations (3)", "3 of 3 iterations"),
    (f.iteration_count > 3, Facts(3), "iteration_count > 3", "iteration_count is 3, wants more than 3"),
    (f.error_attempts >= 3, Facts(0, 1), "error_attempts >= 3", "1 of 3 error attempts"),
    (f.rejection_streak >= 3, Facts(), "rejection_streak >= 3", "rejection streak 0 of 3"),
    (f.confidence < 0.7, Facts(), "confidence < 0.7", "confidence is 0.75, wants less than 0.7"),
    (f.tool == "fetch", Facts(tool="read"), 'tool is "fetch"', 'tool is "read"'),
    (f.tool != "", Facts(), "tool is not empty", "tool is empty"),
    (f.tool.is_in(("a", "b")), Facts(tool="c"), 'tool is "a" or "b"', 'tool is "c"'),
    (~f.tool.is_in(("a", "b")), Facts(tool="a"), 'tool is neither "a" nor "b"', 'tool is "a"'),
    (f.done, Facts(), "done", "done is no"),
    (~f.done, Facts(done=True), "not done", "done is yes"),
    (
        f.done & (f.iteration_count < 3),
        Facts(3),
        "done and iteration_count < 3",
        "done is no, iteration_count is 3, wants less than 3",
    ),
    (f.done & (f.iteration_count < 3), Facts(2), "done and iteration_count < 3", "done is no"),
    (f.done | (f.tool == "a"), Facts(), 'done or tool is "a"', "done is no, tool is empty"),
    (f.done & (f.done | (f.tool == "a")), Facts(), 'done and (done or tool is "a")', TWICE),
    (~(f.done | (f.tool == "a")), Facts(done=True), 'not (done or tool is "a")', "done is yes, tool is empty"),
    (f.iteration_count == 3, Facts(2), "iteration_count == 3", "iteration_count is 2, wants 3"),
]


@pytest.mark.parametrize(("when", "facts", "words", "missed"), SAID, ids=[case[2] for case in SAID])
def test_a_rule_says_what_it_asks_for_and_by_how_much_it_was_missed(
    when: Condition, facts: Facts, words: str, missed: str
) -> None:
    told, last = Explainer(router(when)).rules(facts, Policy())
    assert (told.condition, told.missed_by) == (words, missed)
    assert (last.rule, last.condition, last.missed_by) == ("otherwise", "always", "")


def test_limits_are_named_alone_where_no_policy_is_known() -> None:
    assert in_words(f.iteration_count >= p.max_iterations) == "iteration_count >= max_iterations"


CHANGES: list[tuple[tuple[Condition, ...], Facts, list[tuple[str, bool, str]]]] = [
    (
        (f.iteration_count >= p.max_iterations,),
        Facts(2),
        [("iteration_count 3 instead of 2", False, "rule_0"), ("max_iterations 2 instead of 3", True, "rule_0")],
    ),
    (
        (f.iteration_count >= p.max_iterations, f.done),
        Facts(5, done=True),
        [
            ("iteration_count 2 instead of 5", False, "rule_1"),
            ("max_iterations 6 instead of 3", True, "rule_1"),
        ],
    ),
    ((f.confidence < 0.7,), Facts(), [("confidence just under 0.7 instead of 0.75", False, "rule_0")]),
    ((f.tool != "",), Facts(), [("tool not empty instead of empty", False, "rule_0")]),
    (
        (f.tool == "a", f.tool != "b"),
        Facts(tool="a"),
        [('tool "b" instead of "a"', False, "otherwise"), ('tool something else instead of "a"', False, "rule_1")],
    ),
    ((f.done & (f.tool == "a"),), Facts(), []),
    ((f.iteration_count > 0, f.iteration_count < 0), Facts(), [("iteration_count 1 instead of 0", False, "rule_0")]),
]


@pytest.mark.parametrize(("conditions", "facts", "expected"), CHANGES)
def test_the_smallest_change_that_would_have_led_elsewhere(
    conditions: tuple[Condition, ...], facts: Facts, expected: list[tuple[str, bool, str]]
) -> None:
    found = Explainer(router(*conditions)).alternatives(facts, Policy())
    assert sorted((each.change, each.is_limit, each.rule) for each in found) == sorted(expected)


def test_the_smallest_change_comes_first() -> None:
    found = Explainer(router(f.iteration_count >= 9, f.error_attempts >= 2)).alternatives(Facts(), Policy())
    assert [each.change for each in found] == ["error_attempts 2 instead of 0", "iteration_count 9 instead of 0"]


explainer_of = cache(Explainer)


@pytest.mark.parametrize("each", ROUTERS, ids=lambda each: each.name)
@given(data=st.data())
def test_it_names_the_first_rule_that_holds_and_those_before_it(each: Router[Any, Any], data: st.DataObject) -> None:
    facts, policy = data.draw(facts_of(each)), data.draw(policies_of(each))
    explainer = explainer_of(each)
    told = explainer.rules(facts, policy)
    fired, led_to = first_rule(each, facts, policy)
    assert [rule.rule for rule in told] == [rule.name for rule in each.rules[: len(told)]]
    assert told[-1].rule == fired.name
    assert [rule.holds for rule in told] == [False] * (len(told) - 1) + [True]
    assert [bool(rule.missed_by) for rule in told] == [True] * (len(told) - 1) + [False]
    # Whatever is said to lead elsewhere does, and leads there by the table.
    for alternative in explainer.alternatives(facts, policy):
        assert alternative.destination != led_to
        assert alternative.destination in next(r for r in each.rules if r.name == alternative.rule).destinations


@dataclass(frozen=True)
class Bounded:
    """A policy whose limit operators can't set to nothing."""

    max_iterations: Annotated[int, Field(ge=1, le=9)] = 3


def test_a_limit_that_nobody_can_set_is_no_way_out() -> None:
    limit = terms(Bounded)
    rules = [Rule("over", "stop", f.iteration_count >= limit.max_iterations), Rule("otherwise", END, Always())]
    table = Explainer(Router("agent.route", facts=_facts, policy=Bounded(), rules=rules))
    changes = {count: [a.change for a in table.alternatives(Facts(count), Bounded()) if a.is_limit] for count in (0, 1)}
    assert changes == {0: [], 1: ["max_iterations 1 instead of 3"]}
    # One that a run was pinned to before it was bounded so can be told of all the same.
    fact = Alternative("iteration_count 11 instead of 12", False, "otherwise", END)
    assert table.alternatives(Facts(12), Bounded(12)) == [fact]


def test_another_rule_that_leads_to_the_same_node_leads_nowhere_else() -> None:
    rules = [
        Rule("tired", "rest", f.iteration_count >= 3),
        Rule("failed", "rest", f.error_attempts >= 2),
        Rule("otherwise", "work", Always()),
    ]
    table = Explainer(Router("agent.route", facts=_facts, policy=Policy(), rules=rules))
    assert [each.rule for each in table.alternatives(Facts(3), Policy())] == ["otherwise"]


def test_a_rule_that_leads_to_several_may_have_led_elsewhere_by_itself() -> None:
    rules = [Rule("any", either("rest", f.done, "work"), Always())]
    table = Explainer(Router("agent.route", facts=_facts, policy=Policy(), rules=rules))
    assert table.alternatives(Facts(), Policy()) == [Alternative("done yes instead of no", False, "any", "rest")]


STORED = router(f.iteration_count >= p.max_iterations, f.done, f.confidence < p.least_confidence)


def recorded(facts: Facts, policy: Policy) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """A decision as the ledger has it: rule, facts, grounds of all rules tried, and the policy's version."""
    decision = STORED.decide_on(facts, policy)
    grounds = {**decision.grounds, **{k: v for tried in decision.rejected for k, v in tried.grounds.items()}}
    made_by = Router("agent.route", facts=_facts, policy=policy, rules=STORED.rules)
    return decision.rule, orjson.loads(orjson.dumps(asdict(facts))), grounds, policy_version(made_by.policy)


def test_a_stored_decision_is_explained_with_its_own_limits() -> None:
    explained = Explainer(STORED).stored(*recorded(Facts(2, done=True), Policy(max_iterations=5)))
    assert explained is not None
    assert explained.rules[0].missed_by == "2 of 5 iterations"
    # What later rules would have been held against is not known: they are not said to fire.
    assert {each.rule for each in explained.alternatives} == {"rule_0"}


@pytest.mark.parametrize(
    ("when", "facts", "used"),
    [
        (f.iteration_count >= p.max_iterations, Facts(1), 1 / 3),
        (f.iteration_count > p.max_iterations, Facts(9), 1.0),
        (p.max_iterations <= f.iteration_count, Facts(2), 2 / 3),
        (f.iteration_count >= p.max_iterations, Facts(-1), 0.0),
        (f.iteration_count >= 3, Facts(1), None),
        (f.done, Facts(), None),
        ((f.iteration_count >= p.max_iterations) & (f.error_attempts >= p.max_iterations) & f.done, Facts(2, 1), 1 / 3),
        ((f.iteration_count >= p.max_iterations) | (f.error_attempts >= p.max_iterations), Facts(2, 1), 2 / 3),
    ],
)
def test_a_breaker_says_which_part_of_its_limit_is_used(when: Condition, facts: Facts, used: float | None) -> None:
    breaker = Rule("breaker", END, when, then=lambda rule: {STOP_REASON: rule})
    table = Router("agent.route", facts=_facts, policy=Policy(), rules=[breaker, Rule("otherwise", "work", Always())])
    decision = table.decide_on(facts, Policy())
    [told] = Explainer(table).breakers(decision.rule, asdict(facts), {}, policy_version(table.policy))
    assert told.used == (pytest.approx(used) if used is not None else None)


def test_under_todays_limits_later_rules_are_told_too() -> None:
    explained = Explainer(STORED).stored(*recorded(Facts(2, done=True, confidence=0.1), Policy()))
    assert explained is not None
    assert {each.rule for each in explained.alternatives} == {"rule_0", "rule_2"}


def test_what_todays_table_decides_otherwise_is_not_explained_by_it() -> None:
    rule, facts, grounds, version = recorded(Facts(2, done=True), Policy())
    assert Explainer(STORED).stored("rule_0", facts, grounds, version) is None
    assert Explainer(STORED).stored(rule, {"iteration_count": "many"}, grounds, version) is None
    assert Explainer(STORED).stored(rule, {**facts, "done": False}, grounds, version) is None


@given(facts=facts_of(STORED), limit=st.integers(0, 9))
def test_any_stored_decision_of_the_table_is_explained(facts: Facts, limit: int) -> None:
    policy = replace(Policy(), max_iterations=limit)
    rule, _, grounds, version = recorded(facts, policy)
    explained = Explainer(STORED).stored(rule, asdict(facts), grounds, version)
    assert explained is not None
    assert explained.rules[-1].rule == rule
