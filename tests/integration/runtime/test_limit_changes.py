"""Who changed an agent's limits and when: written down once, whatever starts beside whatever else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, TypedDict

import grpc
import pytest
from langgraph.graph import END, START, StateGraph
from prometheus_client import REGISTRY
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc

from services.kit.wire.server import Registration
from services.runtime.agents.limits_in_force import LimitInForce, LimitsInForce, LimitSource, limits_of
from services.runtime.agents.policies import BUDGET, FILE, Limits, built_in
from services.runtime.api.callers import Callers
from services.runtime.api.maintenance_servicer import MaintenanceServicer
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.limit_changes import Deployment, LimitChanges, LimitRecord
from services.runtime.engine.retention import Pruner, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.serde import make_serde
from services.runtime.hosted.definition import HostedAgent, HostedDefinition
from tests.fixtures.hosted import loaded
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import BUDGET as COUNTING_BUDGET
from tests.fixtures.replica import Counting, CountingPolicy, gateway_word, serving

MOST = 100
FIRST, SECOND = Deployment("1.0"), Deployment("1.1", 7, "ops@example.com", "runs were cut short")


def counting(max_counts: int) -> LimitsInForce:
    """The counting agent's limits where an operator's file sets one."""
    limits = Limits(CountingPolicy(max_counts), COUNTING_BUDGET, {"max_counts": FILE})
    return limits_of(Counting().agent(limits=limits), LimitSource.FILE)


class Basket(TypedDict):
    total: int


def is_dear(state: Basket) -> str:
    return "pay" if state["total"] > MOST else END


def dear() -> HostedAgent:
    """A graph with a limit in its code."""
    graph = StateGraph(Basket)
    for node in ("add", "pay"):
        graph.add_node(node, lambda state: state)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", is_dear, ["pay", END])
    definition = HostedDefinition(loaded("dear", graph))
    return HostedAgent(definition, built_in(definition.policy, definition.budget))


class Fleet:
    """Replicas as far as they tell of their limits."""

    def __init__(self, pool: PlatformPool) -> None:
        self.pool = pool
        self.changes = LimitChanges(pool)

    def replica(self, limits: LimitsInForce, deployment: Deployment = FIRST) -> LimitRecord:
        return LimitRecord(self.pool, [limits], deployment)

    async def start(self, limits: LimitsInForce, deployment: Deployment = FIRST) -> LimitRecord:
        replica = self.replica(limits, deployment)
        await replica.tell()
        return replica

    async def told(self) -> list[tuple[Any, Any]]:
        """What `max_counts` was and became, oldest first; None of the first entry."""
        changes = reversed(await self.changes.list("counting", 0, 100))
        return [(each.limits[0].old, each.limits[0].new) if each.limits else (None, None) for each in changes]

    async def nobody_has(self, limits: LimitsInForce) -> None:
        await self._execute(
            "UPDATE platform.limits_in_force SET seen_at = now() - interval '2 minutes' WHERE limits_digest = %s",
            [limits.digest],
        )

    async def age(self, interval: str) -> None:
        await self._execute("UPDATE platform.limit_changes SET changed_at = now() - %s::interval", [interval])

    async def _execute(self, statement: str, parameters: list[Any]) -> None:
        async with self.pool.connection() as connection:
            await connection.execute(statement, parameters)


@pytest.fixture
def fleet(platform_pool: PlatformPool) -> Fleet:
    return Fleet(platform_pool)


async def test_a_change_says_what_by_whom_with_what_and_why(fleet: Fleet) -> None:
    await fleet.start(counting(5))
    await fleet.start(counting(3), SECOND)
    change, first = await fleet.changes.list("", 0, 10)
    assert first.limits == []
    assert (first.release, first.revision, first.changed_by, first.reason) == ("1.0", 0, "", "")
    [limit] = change.limits
    assert (limit.name, limit.old, limit.new, limit.source) == ("max_counts", 5, 3, LimitSource.FILE)
    assert limit.routers == ("counting.route_after_count",)
    assert (change.release, change.revision) == ("1.1", 7)
    assert (change.changed_by, change.reason) == ("ops@example.com", "runs were cut short")
    assert change.policy_version == Limits(CountingPolicy(3), COUNTING_BUDGET).pin.policy_version
    changed_s = REGISTRY.get_sample_value("signalbox_limits_changed_timestamp_seconds", {"agent": "counting"})
    assert changed_s == pytest.approx(change.changed_at.timestamp(), abs=0.01)


def test_limits_in_the_code_of_a_graph_are_told_apart() -> None:
    limits = limits_of(dear(), LimitSource.FILE)
    own = limits.limits["most"]
    assert (own.value, own.source, own.routers) == (MOST, LimitSource.CODE, ("dear.route_after_add",))
    assert limits.limits["max_steps"].source == LimitSource.RELEASE


async def test_of_many_replicas_one_writes(fleet: Fleet) -> None:
    for limits in (counting(5), counting(3)):
        replicas = [fleet.replica(limits) for _ in range(6)]
        await asyncio.gather(*(each.tell() for each in replicas for _ in range(2)))
    assert await fleet.told() == [(None, None), (5, 3)]


async def test_versions_side_by_side_do_not_take_turns(fleet: Fleet) -> None:
    old = await fleet.start(counting(5))
    new = await fleet.start(counting(3), SECOND)
    for _ in range(3):  # of the old version one starts anew, and all say again and again what they have
        for each in (await fleet.start(counting(5)), old, new):
            await each.tell()
    assert await fleet.told() == [(None, None), (5, 3)]


async def test_a_rollback_is_one_once_nobody_has_the_newer_limits(fleet: Fleet) -> None:
    await fleet.start(counting(5))
    await fleet.start(counting(3), SECOND)
    back = await fleet.start(counting(5), Deployment("1.0", 8))
    assert len(await fleet.told()) == 2
    await fleet.nobody_has(counting(3))
    await back.tell()
    await back.tell()
    assert await fleet.told() == [(None, None), (5, 3), (3, 5)]
    assert (await fleet.changes.list("counting", 0, 1))[0].revision == 8


async def test_limits_that_come_and_go_and_budgets(fleet: Fleet) -> None:
    before = counting(5)
    limits = {**before.limits, "grace_s": LimitInForce(2.5, LimitSource.RELEASE)}
    del limits["max_counts"]
    limits[f"{BUDGET}.tokens"] = LimitInForce(7, LimitSource.SETTING)
    await fleet.start(before)
    await fleet.start(replace(before, limits=limits))
    [change, _] = await fleet.changes.list("counting", 0, 10)
    told = {each.name: (each.old, each.new, each.source) for each in change.limits}
    assert told == {
        "max_counts": (5, None, None),
        "grace_s": (None, 2.5, LimitSource.RELEASE),
        f"{BUDGET}.tokens": (COUNTING_BUDGET["tokens"], 7, LimitSource.SETTING),
    }


async def test_another_source_of_the_same_value_is_no_change(fleet: Fleet) -> None:
    await fleet.start(counting(50))
    await fleet.start(limits_of(Counting().agent(), LimitSource.FILE), SECOND)
    assert await fleet.told() == [(None, None)]


async def test_retention_keeps_the_newest_of_an_agent_that_is_there(fleet: Fleet) -> None:
    for number in (5, 4, 3):
        await fleet.start(counting(number))
    policies = {
        "default": RetentionPolicy(history_minutes=1, checkpoint_days=1, event_days=2, run_days=3, decision_days=4)
    }
    pruner = Pruner(fleet.pool, CheckpointHistory(fleet.pool, make_serde()), policies)
    assert await pruner.due() == []
    await fleet.age("5 days")
    [due] = await pruner.due()
    assert (due.kind, due.agent, due.row_count) == (RetainedData.LIMIT_CHANGES, "counting", 2)
    batch = await pruner.prune()
    assert batch
    assert [(each.kind, each.row_count) for each in batch.removals] == [(RetainedData.LIMIT_CHANGES, 2)]
    assert await fleet.told() == [(4, 3)]
    async with fleet.pool.connection() as connection:
        await connection.execute("UPDATE platform.limits_in_force SET seen_at = now() - interval '8 days'")
    assert (await pruner.prune()) is not None
    assert await fleet.told() == []
    await fleet.start(counting(3))
    assert await fleet.told() == [(None, None)]


@pytest.fixture
async def maintenance(fleet: Fleet) -> AsyncIterator[maintenance_pb2_grpc.MaintenanceServiceAsyncStub]:
    def make(callers: Callers) -> Registration:
        pruner = Pruner(fleet.pool, CheckpointHistory(fleet.pool, make_serde()), {})
        servicer = MaintenanceServicer(callers, pruner, Ledger(fleet.pool), {}, fleet.changes)
        add = maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server
        return Registration(add, servicer, "signalbox.v1.MaintenanceService")

    async with serving(make) as channel:
        yield maintenance_pb2_grpc.MaintenanceServiceStub(channel)


async def test_operators_read_it_page_by_page(
    fleet: Fleet, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
) -> None:
    for number in (5, 4, 3):
        await fleet.start(counting(number), SECOND)
    request = maintenance_pb2.ListLimitChangesRequest(agent="counting", page_size=2)
    detail = await refusal(maintenance.ListLimitChanges(request, metadata=gateway_word("27")))
    assert (detail.code, detail.reason) == (grpc.StatusCode.PERMISSION_DENIED, "OPERATOR_ONLY")
    page = await maintenance.ListLimitChanges(request, metadata=gateway_word("op", "operator"))
    [newest, other] = page.changes
    assert [
        (each.limits[0].old_value.number_value, each.limits[0].new_value.number_value) for each in page.changes
    ] == [
        (4, 3),
        (5, 4),
    ]
    assert newest.limits[0].source == maintenance_pb2.LIMIT_SOURCE_FILE
    assert (newest.changed_by, newest.revision, other.reason) == ("ops@example.com", 7, "runs were cut short")
    request.page_token = page.next_page_token
    rest = await maintenance.ListLimitChanges(request, metadata=gateway_word("op", "operator"))
    assert [list(each.limits) for each in rest.changes] == [[]]
    assert rest.next_page_token == ""
    nobody = maintenance_pb2.ListLimitChangesRequest(agent="nobody")
    assert not (await maintenance.ListLimitChanges(nobody, metadata=gateway_word("op", "operator"))).changes
