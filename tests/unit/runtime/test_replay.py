"""Replay: where stored decisions would have led under other limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox_routing.facts import as_dict
from signalbox_routing.table import END, Router, Rule, State
from signalbox_routing.terms import Always, terms

from services.kit.errors import InvalidRequest
from services.runtime.agents.registry import agent_graphs
from services.runtime.routing.digest import policy_version
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.redeciding import Divergence, Replay, StoredDecision, with_limits
from tests.fixtures.decided import ROUTERS, facts_of, policies_of

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Facts:
    """What the table knows."""

    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """What the table holds it against."""

    limit: int = 15
    ratio: float = 0.5


def facts(state: State) -> Facts:
    """Takes the facts from state."""
    return Facts(state["count"])


RULES = [
    Rule("limit", to=END, when=terms(Facts).count >= terms(Policy).limit),
    Rule("go_on", to="work", when=Always()),
]
ROUTER = Router("agent.route_after_work", facts=facts, policy=Policy(), rules=RULES)


def stored(run_id: str, sequence: int, count: Any, rule: str = "go_on", destination: str = "work") -> StoredDecision:
    """A decision as the ledger has it."""
    blanked = count is None
    recorded = {} if blanked else {"count": count, "names": ["a"]}
    return StoredDecision(run_id, sequence, rule, destination, recorded, AT)


def diverged(replay: Replay, decisions: list[StoredDecision]) -> list[Divergence]:
    """Where runs leave their way."""
    return [found for decision in decisions if (found := replay.decide(decision))]


def test_the_first_decision_that_leads_elsewhere_is_where_a_run_leaves_its_way() -> None:
    replay = Replay(ROUTER, with_limits(ROUTER.policy, {"limit": "5"}))
    decisions = [stored("a", 1, 4), stored("a", 3, 5), stored("a", 5, 6), stored("b", 1, 4), stored("c", 1, 9)]
    found = diverged(replay, decisions)
    assert [(each.run_id, each.sequence) for each in found] == [("a", 3), ("c", 1)]
    assert {(each.other_rule, each.other_destination) for each in found} == {("limit", END)}
    assert (replay.run_count, replay.decision_count, replay.skipped_count) == (3, 5, 0)


def test_under_the_limits_they_were_made_with_nothing_goes_elsewhere() -> None:
    replay = Replay(ROUTER, ROUTER.policy)
    decisions = [stored("a", number, number) for number in range(15)]
    assert diverged(replay, [*decisions, stored("a", 16, 15, "limit", END)]) == []
    assert replay.policy_version == policy_version(ROUTER.policy)


def test_blanked_facts_and_facts_of_another_shape_are_skipped() -> None:
    replay = Replay(ROUTER, with_limits(ROUTER.policy, {"limit": "1"}))
    assert diverged(replay, [stored("a", 1, None), stored("a", 2, "many"), stored("a", 3, 2)])[0].sequence == 3
    assert replay.skipped_count == 2


def test_a_failed_node_fails_under_any_limits() -> None:
    replay = Replay(ROUTER, with_limits(ROUTER.policy, {"limit": "1"}))
    assert diverged(replay, [stored("a", 1, None, NODE_FAILED, END)]) == []
    assert replay.skipped_count == 0


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"limits": "5"}, "limits['limits']"),
        ({"limit": "five"}, "limits['limit']"),
        ({"limit": str(2**64)}, "limits['limit']"),
        ({"ratio": "nan"}, "limits['ratio']"),
        ({"ratio": "inf"}, "limits['ratio']"),
    ],
)
def test_a_limit_that_there_is_not_or_that_is_none_is_refused(limits: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_limits(ROUTER.policy, limits)
    assert [violation.field for violation in refused.value.violations] == [field]


def test_limits_are_read_by_their_type() -> None:
    assert with_limits(Policy(), {"limit": "7", "ratio": "0.25"}) == Policy(7, 0.25)


@pytest.mark.parametrize("router", [r for graph in agent_graphs() for r in graph.routers], ids=lambda r: r.name)
def test_the_facts_of_every_router_survive_the_ledger(router: Router[Any, Any]) -> None:
    # An empty state is the least that a router must be able to decide on.
    recorded = orjson.loads(orjson.dumps(as_dict(router.facts({})), default=str))
    decided = router.decide({})
    decision = StoredDecision("a", 1, decided.rule, decided.destination, recorded, AT)
    replay = Replay(router, router.policy)
    assert replay.decide(decision) is None
    assert replay.skipped_count == 0


@pytest.mark.parametrize("router", ROUTERS, ids=lambda each: each.name)
@given(data=st.data())
def test_what_was_recorded_under_any_limits_comes_out_again_under_them(
    router: Router[Any, Any], data: st.DataObject
) -> None:
    facts, policy = data.draw(facts_of(router)), data.draw(policies_of(router))
    verdict = router.decide_on(facts, policy)
    recorded = orjson.loads(orjson.dumps(verdict.facts))
    replay = Replay(router, policy)
    assert replay.decide(StoredDecision("a", 1, verdict.rule, verdict.destination, recorded, AT)) is None
    assert replay.skipped_count == 0
