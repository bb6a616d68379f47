"""Decision tables: first rule wins, tables are total, and a decision says what it rested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox_routing.table import END, Choice, Router, Rule, State, either, named_by
from signalbox_routing.terms import Always, Condition, InvalidTableError, terms

from services.runtime.routing.digest import policy_version
from tests.fixtures.decided import ROUTERS, facts_of, first_rule, policies_of


@dataclass(frozen=True)
class Facts:
    """What the table knows."""

    count: int = 0
    done: bool = False
    place: str = ""
    share: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """What the table holds it against."""

    limit: int = 3
    least_share: float = 0.5
    done: bool = False


def facts(state: State) -> Facts:
    """Takes the facts from state."""
    return Facts(state["count"], state["done"])


def stop(rule: str) -> dict[str, str]:
    """A breaker's update."""
    return {"stop_reason": rule}


f, p = terms(Facts), terms(Policy)
RULES = [
    Rule("limit", to=END, when=f.count >= p.limit, then=stop),
    Rule("done", to="answer", when=f.done),
    Rule("go_on", to="work", when=Always()),
]
ROUTER = Router("agent.route_after_work", facts=facts, policy=Policy(), rules=RULES)


@pytest.mark.parametrize(
    ("count", "done", "rule", "destination"),
    [(0, False, "go_on", "work"), (0, True, "done", "answer"), (3, True, "limit", END), (9, False, "limit", END)],
)
def test_the_first_rule_that_holds_wins(count: int, done: bool, rule: str, destination: str) -> None:
    decision = ROUTER.decide({"count": count, "done": done})
    assert (decision.rule, decision.destination) == (rule, destination)


def test_a_verdict_names_what_each_rule_read() -> None:
    decision = ROUTER.decide({"count": 1, "done": True})
    assert decision.grounds == {"done": True}
    assert [(tried.rule, tried.grounds) for tried in decision.rejected] == [("limit", {"count": 1, "limit": 3})]
    assert decision.facts == {"count": 1, "done": True, "place": "", "share": 0.0, "names": ()}


def test_a_rules_update_carries_its_name() -> None:
    assert ROUTER.decide({"count": 3, "done": False}).update == {"stop_reason": "limit"}


def test_another_policy_can_be_tried_on_the_same_facts() -> None:
    assert ROUTER.decide_on(Facts(count=3), Policy(limit=5)).rule == "go_on"


def test_policy_versions_follow_the_limits() -> None:
    assert policy_version(Policy()) == policy_version(Policy(limit=3))
    assert policy_version(Policy()) != policy_version(Policy(limit=4))


@pytest.mark.parametrize(
    "rules",
    [
        [],
        RULES[:2],
        [RULES[2], RULES[0]],
        [RULES[0], RULES[0], RULES[2]],
        [RULES[2], Rule("too_late", END, Always())],
    ],
)
def test_a_table_that_is_not_total_or_not_clear_is_refused(rules: list[Rule]) -> None:
    with pytest.raises(InvalidTableError, match=r"agent\.route_after_work"):
        Router("agent.route_after_work", facts=facts, policy=Policy(), rules=rules)


def choosing(to: Choice, when: Condition) -> Router[Facts, Policy]:
    """A table whose first rule leads where the facts say."""
    rules = [Rule("chosen", to, when), Rule("none", END, Always())]
    return Router("agent.route_by_size", facts=facts, policy=Policy(), rules=rules)


@pytest.mark.parametrize(("count", "destination"), [(1, "few"), (2, "many"), (0, END)])
def test_a_condition_can_choose_between_the_destinations_of_a_rule(count: int, destination: str) -> None:
    router = choosing(either("few", when=f.count < 2, otherwise="many"), f.count > 0)
    assert router.destinations == {"few": ["chosen"], "many": ["chosen"], END: ["none"]}
    decision = router.decide({"count": count, "done": False})
    assert decision.destination == destination
    assert decision.grounds == ({"count": count} if count else {})


@pytest.mark.parametrize(("place", "destination"), [("here", "here"), ("there", "there"), ("elsewhere", END)])
def test_a_fact_can_name_the_destination_of_a_rule(place: str, destination: str) -> None:
    router = choosing(named_by(f.place, ("here", "there")), f.place.is_in(("here", "there")))
    assert router.decide_on(Facts(place=place)).destination == destination


def test_what_chooses_is_among_the_grounds() -> None:
    decision = choosing(either("few", when=f.count < 2, otherwise="many"), f.done).decide_on(Facts(1, done=True))
    assert decision.grounds == {"done": True, "count": 1}
    decision = choosing(either("few", when=f.count < 2, otherwise="many"), f.done).decide_on(Facts(1))
    assert decision.rejected[0].grounds == {"done": False}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: f.counts > 1, "Facts has no field 'counts'; it has: count, done, place, share, names"),
        (lambda: f.names == "a", "Facts.names is not a flag, number or text, and so no rule can read it"),
        (lambda: f.count == "three", "Facts.count is an integer and can't be compared with 'three', a text"),
        (lambda: f.count >= f.place, "Facts.count is an integer and can't be compared with Facts.place, a text"),
        (lambda: f.count == True, "Facts.count is an integer and can't be compared with True, a flag"),  # noqa: E712
        (lambda: f.place > "a", "Facts.place is a text, and has no order: use == or !="),
        (lambda: f.done >= f.done, "Facts.done is a flag, and has no order: use == or !="),
        (lambda: f.place == None, "Facts.place can't be compared with None, which is not a flag, number or text"),  # noqa: E711
        (lambda: f.place.is_in((1, 2)), "Facts.place is a text and can't be compared with 1, an integer"),
        (lambda: f.place.is_in(()), "Facts.place can be none of no values"),
        (lambda: Rule("counted", END, f.count), "Facts.count is an integer, no condition: compare it with something"),
        (lambda: f.done & f.count, "Facts.count is an integer, no condition"),
        (lambda: ~f.count, "Facts.count is an integer, no condition"),
        (lambda: f.done and f.done, "is neither true nor false before it is decided: write &, | and ~"),
        (lambda: 1 <= f.count <= 3, "is neither true nor false before it is decided"),
        (lambda: Rule("free", END, cast(Condition, lambda facts: facts.done)), "is not a condition"),
        (lambda: terms(str), "str is not a dataclass"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused_when_it_is_built(build: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidTableError) as refused:
        build()
    assert words in str(refused.value)


@dataclass(frozen=True)
class OtherFacts:
    """What another table knows."""

    done: bool


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (terms(OtherFacts).done, "OtherFacts.done is not a field of Facts or Policy"),
        (f.done & p.done, "done is a fact and a limit"),
    ],
)
def test_a_table_reads_its_own_records_and_no_name_twice(when: Condition, words: str) -> None:
    with pytest.raises(InvalidTableError, match=f"agent.route_after_work: {words}"):
        Router("agent.route_after_work", facts=facts, policy=Policy(), rules=[Rule("first", END, when), *RULES])


@pytest.mark.parametrize(
    ("when", "holding"),
    [
        (f.count == 3, {3}),
        (f.count != 3, {0, 2, 4}),
        (~(f.count == 3), {0, 2, 4}),
        (f.count > 2.5, {3, 4}),
        (f.count < 3, {0, 2}),
        (~(f.count <= p.limit), {4}),
        (f.count.is_in((0, 4)), {0, 4}),
        (~f.count.is_in((0, 4)), {2, 3}),
        ((f.count > 1) & (f.count < 4), {2, 3}),
        ((f.count < 1) | (f.count > 3), {0, 4}),
        (~((f.count < 1) | (f.count > 3)), {2, 3}),
        (~f.done & (f.count > 1) & ~(f.count == 3), {2, 4}),
    ],
)
def test_conditions_say_what_they_say_in_python(when: Condition, holding: set[int]) -> None:
    router = Router("agent.route", facts=facts, policy=Policy(), rules=[Rule("it", "it", when), RULES[2]])
    assert {count for count in (0, 2, 3, 4) if router.decide_on(Facts(count)).rule == "it"} == holding


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
@given(data=st.data())
def test_every_table_is_decided_by_the_first_rule_that_holds(router: Router[Any, Any], data: st.DataObject) -> None:
    known, policy = data.draw(facts_of(router)), data.draw(policies_of(router))
    rule, destination = first_rule(router, known, policy)
    decision = router.decide_on(known, policy)
    assert (decision.rule, decision.destination) == (rule.name, destination)
    assert [tried.rule for tried in decision.rejected] == [
        each.name for each in router.rules[: router.rules.index(rule)]
    ]
    assert router.destination_of(known, policy) == (rule, destination)
