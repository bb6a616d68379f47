"""Replay in the database decides as replay in Python does: every table, all limits, and whatever a ledger may hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from signalbox_routing.facts import Record, as_dict
from signalbox_routing.table import Router

from services.runtime.commands.migrate import migrate
from services.runtime.engine.database import open_pool
from services.runtime.engine.ledger import DecidedInDatabase, Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.in_sql import NotInSql, decision_in_sql
from services.runtime.routing.redeciding import Divergence, Replay
from tests.fixtures.decided import ROUTERS, MixedFacts, facts_of, policies_of
from tests.fixtures.postgres import PostgresCluster

AT = datetime(2026, 1, 1, tzinfo=UTC)
WRITE = """
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules,
        grounds, facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided_at)
    VALUES (%s, %s, 'd', 'a', %s, %s, %s, '[]', '{}', %s::jsonb, 'v', 'c', 't', 's', 'n', 1, '[]', %s)
"""
# Values as they may stand in JSON, whatever wrote them.
ODD = [
    "null", "true", "false", "0", "-0", "-0.0", "1.0", "3.00", "2.5", "0.7", "0.30000000000000001", "1e2", "1e-400",
    "1e400", "9007199254740993", "9007199254740993.0", "9223372036854775808", "123456789012345678901234567890.5",
    "3.0000000000000000000000000000001", "1.7976931348623157e308", "1.8e308", "4.9e-324", '""', '"3"', '"yes"', '"0.7"',
    '"inf"', '"nan"', '"work"', '"na\\u0308her"', '"n\\u00e4her"', '"\\ud83d\\ude42"', '"100 % known"', "[]", "[1]",
    "{}", '{"count": 1}',
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of a ledger; facts as JSON text."""

    run: int
    rule: str
    destination: str
    facts: str


Replayed = tuple[list[Divergence], int, int, int]


class Platform:
    """A platform database whose ledger is what it is told to be."""

    def __init__(self, dsn: str, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._pool = open_pool(dsn, size=2)
        pool = runner.run(self._pool.__aenter__())
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.ledger = Ledger(pool)

    def close(self) -> None:
        """Closes its connections."""
        self._connection.close()
        self._runner.run(self._pool.__aexit__(None, None, None))

    def write(self, router: str, decisions: Sequence[Row]) -> None:
        """Makes these the ledger."""
        rows = [
            (UUID(int=each.run), number, router, each.rule, each.destination, each.facts, AT)
            for number, each in enumerate(decisions, start=1)
        ]
        self._connection.execute("DELETE FROM platform.decisions")
        self._connection.cursor().executemany(WRITE, rows)

    def both(self, router: Router[Any, Any], policy: Record) -> tuple[Replayed, Replayed]:
        """What the ledger comes to, as it is replayed and decision by decision in Python."""
        return self._runner.run(self._both(router, policy))

    def in_database(self, router: Router[Any, Any]) -> DecidedInDatabase:
        """What the database alone makes of the ledger under the router's own policy."""
        return self._runner.run(self.ledger.replay(router.name, decision_in_sql(router, router.policy), None))

    async def _both(self, router: Router[Any, Any], policy: Record) -> tuple[Replayed, Replayed]:
        replay = LedgerReplay(self.ledger, router, policy)
        found = [each async for each in replay.divergences(None)]
        python, expected = Replay(router, policy), list[Divergence]()
        async with self.ledger.decisions_of(router.name, None) as decisions:
            async for stored in decisions:
                if divergence := python.decide(stored):
                    expected.append(divergence)
        return (
            (found, replay.run_count, replay.decision_count, replay.skipped_count),
            (expected, python.run_count, python.decision_count, python.skipped_count),
        )


@pytest.fixture(scope="module")
def platform(postgres_cluster: PostgresCluster) -> Iterator[Platform]:
    """A migrated database of this module."""
    name = postgres_cluster.create_database()
    migrate(postgres_cluster.dsn(name))
    with asyncio.Runner() as runner:
        platform = Platform(postgres_cluster.dsn(name), runner)
        yield platform
        platform.close()
    postgres_cluster.drop_database(name)


@st.composite
def decisions_of(draw: st.DrawFn, router: Router[Any, Any]) -> Row:
    """A decision with facts of the router, often of its shape, sometimes of any other."""
    known = {name: json.dumps(value) for name, value in as_dict(draw(facts_of(router))).items()}
    names = [field.name for field in fields(router.facts_type)]
    for name in draw(st.lists(st.sampled_from(names), max_size=2)) if draw(st.integers(0, 3)) == 0 else []:
        known[name] = draw(st.sampled_from(ODD))
    if draw(st.integers(0, 9)) == 0:
        known.pop(draw(st.sampled_from(names)), None)
    if draw(st.integers(0, 9)) == 0:
        known["something_else"] = draw(st.sampled_from(ODD))
    rule = draw(st.sampled_from([rule.name for rule in router.rules] + [NODE_FAILED]))
    destination = draw(st.sampled_from([*router.destinations, "nowhere"]))
    return Row(draw(st.integers(1, 6)), rule, destination, written(known))


def written(facts: Mapping[str, str]) -> str:
    """Facts as JSON, of values that are JSON already."""
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in facts.items()) + "}"


each_router = pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
patient = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@each_router
@patient
@given(data=st.data())
def test_they_agree(platform: Platform, router: Router[Any, Any], data: st.DataObject) -> None:
    platform.write(router.name, data.draw(st.lists(decisions_of(router), min_size=1, max_size=40)))
    found, expected = platform.both(router, data.draw(policies_of(router)))
    assert found == expected


@each_router
def test_they_agree_on_every_odd_value_of_every_fact(platform: Platform, router: Router[Any, Any]) -> None:
    plain = {name: json.dumps(value) for name, value in as_dict(router.facts({"until": 3})).items()}
    odd = [{**plain, name: value} for name in plain for value in ODD]
    odd += [{each: value for each, value in plain.items() if each != name} for name in plain]
    destinations = [*router.destinations, "nowhere"]
    decisions = [
        Row(run, router.rules[0].name, destinations[run % len(destinations)], written(facts))
        for run, facts in enumerate(odd, start=1)
    ]
    platform.write(router.name, decisions)
    found, expected = platform.both(router, router.policy)
    assert found == expected
    assert found[1] == len(odd)


@each_router
@patient
@given(data=st.data())
def test_what_the_table_itself_has_recorded_the_database_decides_alone_and_alike(
    platform: Platform, router: Router[Any, Any], data: st.DataObject
) -> None:
    drawn = [facts for facts in data.draw(st.lists(facts_of(router), min_size=1, max_size=20)) if not beyond(facts)]
    decisions = [router.decide_on(facts) for facts in drawn]
    rows = [
        Row(run, decision.rule, decision.destination, orjson.dumps(decision.facts).decode())
        for run, decision in enumerate(decisions, start=1)
    ]
    platform.write(router.name, rows)
    assert platform.in_database(router) == DecidedInDatabase(len(drawn), len(drawn))


def beyond(facts: Record) -> bool:
    """Whether a number is so large or so small that it is left to Python."""
    numbers = [abs(value) for value in as_dict(facts).values() if isinstance(value, float) and value]
    return any(not 1e-300 <= number <= 1e300 for number in numbers)


def test_a_run_is_found_where_it_first_leaves_its_way_whoever_decides_that(platform: Platform) -> None:
    router = ROUTERS[0]
    went = {"screening": "allowed", "reason": ""}
    plain, blanked = json.dumps(went), "{}"
    elsewhere = json.dumps({**went, "screening": "blocked"})
    ledger = [(1, plain), (1, elsewhere), (1, elsewhere), (2, blanked), (2, elsewhere), (2, blanked), (3, blanked)]
    platform.write(router.name, [Row(run, "allowed", "agent", facts) for run, facts in ledger])
    found, expected = platform.both(router, router.policy)
    assert found == expected
    divergences, runs, decisions, skipped = found
    assert [(UUID(each.run_id).int, each.sequence, each.other_rule) for each in divergences] == [
        (1, 2, "blocked"),
        (2, 5, "blocked"),
    ]
    assert (runs, decisions, skipped) == (3, 7, 2)


MIXED = ROUTERS[-1]


@pytest.mark.parametrize(
    "limits",
    [
        {"max_share": float("nan")},
        {"max_share": float("inf")},
        {"whole": 2**53 + 1},
        {"whole": 10**400},
        {"known": "a\0b"},
        {"known": "\ud800"},
    ],
)
def test_limits_that_postgres_takes_for_something_else_stay_in_python(limits: dict[str, Any]) -> None:
    with pytest.raises(NotInSql):
        decision_in_sql(MIXED, replace(MIXED.policy, **limits))


def test_an_integer_is_held_against_a_limit_s_exact_value(platform: Platform) -> None:
    # As a double it is 1234567890123456768, and printed as 1.2345678901234568e+18.
    policy = replace(MIXED.policy, max_share=1234567890123456789.0, max_count=2**62)
    for count in (1234567890123456768, 1234567890123456769, 1234567890123456799):
        platform.write(MIXED.name, [Row(1, "share", "work", json.dumps(as_dict(MixedFacts(count))))])
        found, expected = platform.both(MIXED, policy)
        assert found == expected
        assert len(found[0]) == (count <= policy.max_share)


@pytest.mark.parametrize("known", ["'; DROP TABLE platform.runs; --", "\\", "%(router)s %s %", "{fits}", "\u2028'"])
def test_a_limit_is_never_a_part_of_the_statement(platform: Platform, known: str) -> None:
    policy = replace(MIXED.policy, known=known)
    decision = MIXED.decide_on(MixedFacts(confidence=0.9, done=True, place=known), policy)
    assert decision.rule == "known"
    platform.write(MIXED.name, [Row(1, decision.rule, decision.destination, json.dumps(decision.facts))])
    found, expected = platform.both(MIXED, policy)
    assert found == expected == ([], 1, 1, 0)
