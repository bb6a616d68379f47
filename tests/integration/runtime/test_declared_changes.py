"""A node is held to what it declares: a run that does anything else fails with a reason, and is not lost silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from signalbox_routing.table import Router, StateUpdate
from signalbox_routing.terms import terms

from services.runtime.engine.records import RunRecord, RunState
from services.runtime.routing.effects import Effect, Outcome, changes, raises, sets
from services.runtime.routing.graph import RoutedNode
from tests.fixtures.replica import Counting, CountingFacts, CountingPolicy
from tests.integration.runtime.conftest import StartReplica, ended, new_run

f = terms(CountingFacts)
COUNTS_ON = Outcome("counts on", (raises(f.counted),))
REPORTS = Outcome("reports")


class Declaring(Counting):
    """Declares what its nodes change."""

    def __init__(self, *outcomes: Outcome, then: Callable[[str], StateUpdate] | None = None) -> None:
        super().__init__()
        count, report = self.graph.nodes
        if then is not None and count.router is not None:
            count = replace(count, router=changing(count.router, then))
        nodes: tuple[RoutedNode, ...] = (replace(count, outcomes=outcomes), replace(report, outcomes=(REPORTS,)))
        self.graph = replace(self.graph, nodes=nodes)


def changing(router: Router[Any, Any], then: Callable[[str], StateUpdate]) -> Router[Any, Any]:
    """The table with an update for its last rule."""
    *rules, last = router.rules
    return Router(router.name, facts=router._given, policy=CountingPolicy(), rules=[*rules, replace(last, then=then)])


async def run_of(start_replica: StartReplica, counting: Counting) -> tuple[RunRecord, dict[str, Any]]:
    """Runs it to its end; returns the run and the facts of its last decision."""
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=3))
    async with asyncio.timeout(60.0):
        done = await ended(replica, run)
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT facts FROM platform.decisions WHERE run_id = %s ORDER BY sequence DESC LIMIT 1", [run.run_id]
        )
        [facts] = await cursor.fetchone() or [{}]
    return done, facts


@pytest.mark.parametrize(
    "effect", [raises(f.counted), raises(f.counted, most=None), changes(f.counted), sets(f.counted, 1, 2, 3)]
)
async def test_what_is_declared_goes_on(start_replica: StartReplica, effect: Effect) -> None:
    done, _ = await run_of(start_replica, Declaring(Outcome("counts on", (effect,))))
    assert (done.state, done.error) == (RunState.SUCCEEDED, "")


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([Outcome("nothing")], "it changed counted from 0 to 1, which none of its outcomes allows: nothing"),
        ([Outcome("two", (raises(f.counted, least=2, most=2),))], "counted from 0 to 1"),
        ([Outcome("some", (sets(f.counted, 1),)), Outcome("other", (sets(f.until, 9),))], "counted from 1 to 2"),
        ([replace(COUNTS_ON, led_by=("done",))], "counted from 0 to 1"),
        # The first count is led to by no rule, those after it by `go_on`.
        ([Outcome("first", (sets(f.counted, 1),)), replace(COUNTS_ON, led_by=("done",))], "counted from 1 to 2"),
        ([], "which none of its outcomes allows"),
    ],
)
async def test_what_is_not_declared_fails_the_run_by_name(
    start_replica: StartReplica, outcomes: list[Outcome], words: str
) -> None:
    done, facts = await run_of(start_replica, Declaring(*outcomes))
    assert (done.state, done.stop_reason) == (RunState.FAILED, "node_failed")
    assert done.error.startswith("the node 'count' is not what it declares: ")
    assert words in done.error
    assert facts == {"error_reason": "UNDECLARED_CHANGE"}


async def test_an_outcome_of_the_rule_that_led_to_the_node_is_allowed(start_replica: StartReplica) -> None:
    counting = Declaring(Outcome("first", (sets(f.counted, 1),)), replace(COUNTS_ON, led_by=("go_on",)))
    done, _ = await run_of(start_replica, counting)
    assert (done.state, done.error) == (RunState.SUCCEEDED, "")


async def test_a_rule_changes_the_facts_that_its_update_names_and_no_others(start_replica: StartReplica) -> None:
    done, facts = await run_of(start_replica, Declaring(COUNTS_ON, then=lambda _: {"counts": [9]}))
    assert done.state is RunState.FAILED
    assert done.error == "the rule 'go_on' makes {'counted': 2} of facts that its update does not name so"
    assert facts == {"error_reason": "UNDECLARED_CHANGE"}


async def test_a_rule_may_change_a_fact_of_its_own_name(start_replica: StartReplica) -> None:
    done, facts = await run_of(start_replica, Declaring(COUNTS_ON, then=lambda _: {"until": 2}))
    assert (done.state, facts["until"]) == (RunState.SUCCEEDED, 2)
