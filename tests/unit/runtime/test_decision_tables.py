"""Decision tables: first rule wins, tables are total, and a decision says what it rested on."""

from dataclasses import dataclass

import pytest

from services.runtime.routing.table import (
    END,
    Choice,
    InvalidTableError,
    Router,
    Rule,
    State,
    always,
    policy_version,
)


@dataclass(frozen=True)
class Facts:
    """What the table knows."""

    count: int = 0
    done: bool = False


@dataclass(frozen=True)
class Policy:
    """What the table holds it against."""

    limit: int = 3


def facts(state: State) -> Facts:
    """Takes the facts from state."""
    return Facts(state["count"], state["done"])


RULES = [
    Rule[Facts, Policy]("limit", END, lambda f, p: f.count >= p.limit, lambda rule: {"stop_reason": rule}),
    Rule[Facts, Policy]("done", "answer", lambda f, _: f.done),
    Rule[Facts, Policy]("go_on", "work", always),
]
ROUTER = Router("agent.route_after_work", facts=facts, policy=Policy(), rules=RULES)


@pytest.mark.parametrize(
    ("count", "done", "rule", "destination"),
    [(0, False, "go_on", "work"), (0, True, "done", "answer"), (3, True, "limit", END), (9, False, "limit", END)],
)
def test_the_first_rule_that_holds_wins(count: int, done: bool, rule: str, destination: str) -> None:
    verdict = ROUTER.decide({"count": count, "done": done})
    assert (verdict.rule, verdict.destination) == (rule, destination)


def test_a_verdict_names_what_each_rule_read() -> None:
    verdict = ROUTER.decide({"count": 1, "done": True})
    assert verdict.grounds == {"done": True}
    assert [(tried.rule, tried.grounds) for tried in verdict.rejected] == [("limit", {"count": 1, "limit": 3})]
    assert verdict.facts == {"count": 1, "done": True}


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
        [RULES[2], Rule[Facts, Policy]("too_late", END, always)],
    ],
)
def test_a_table_that_is_not_total_or_not_clear_is_refused(rules: list[Rule[Facts, Policy]]) -> None:
    with pytest.raises(InvalidTableError, match=r"agent\.route_after_work"):
        Router("agent.route_after_work", facts=facts, policy=Policy(), rules=rules)


def choosing(*among: str) -> Router[Facts, Policy]:
    """A table whose first rule leads where the facts say."""
    pick = Choice[Facts](among, lambda f: "few" if f.count < 2 else "many")
    rules = [Rule[Facts, Policy]("sized", pick, lambda f, _: f.count > 0), Rule[Facts, Policy]("none", END, always)]
    return Router("agent.route_by_size", facts=facts, policy=Policy(), rules=rules)


@pytest.mark.parametrize(("count", "destination"), [(1, "few"), (2, "many"), (0, END)])
def test_one_rule_can_choose_among_destinations(count: int, destination: str) -> None:
    router = choosing("few", "many")
    assert router.destinations == {"few": ["sized"], "many": ["sized"], END: ["none"]}
    verdict = router.decide({"count": count, "done": False})
    assert verdict.destination == destination
    assert verdict.grounds == ({"count": count} if count else {})


def test_a_rule_cannot_lead_where_it_does_not_say() -> None:
    with pytest.raises(InvalidTableError, match="sized: 'many' is none of few"):
        choosing("few").decide({"count": 2, "done": False})
