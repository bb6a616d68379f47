"""MaintenanceService: pruning and replay over gRPC, for operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc

from services.kit.server import Registration
from services.runtime.callers import Callers
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.retention import Pruner
from services.runtime.engine.serde import make_serde
from services.runtime.maintenance_servicer import MaintenanceServicer
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import TOKENS_PER_COUNT, CountingPolicy, Replica, counting_router, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica, ended, new_run

ROUTER = counting_router(CountingPolicy())


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
async def maintenance(
    platform_pool: AsyncConnectionPool[Any],
) -> AsyncIterator[maintenance_pb2_grpc.MaintenanceServiceAsyncStub]:
    """The service alone."""

    def make(callers: Callers) -> Registration:
        pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {}, batch=1)
        servicer = MaintenanceServicer(callers, pruner, Ledger(platform_pool), {ROUTER.name: ROUTER})
        add = maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server
        return Registration(add, servicer, "signalbox.v1.MaintenanceService")

    async with serving(make) as channel:
        yield maintenance_pb2_grpc.MaintenanceServiceStub(channel)


def auth(*roles: str) -> tuple[tuple[str, str], ...]:
    """The gateway's word about a caller."""
    return gateway_word("op", *roles)


async def counted(replica: Replica, until: int) -> str:
    """A run that has counted."""
    run, _ = await replica.engine.create(new_run(until=until))
    await asyncio.wait_for(ended(replica, run), 60)
    return run.run_id


async def test_it_is_for_operators(maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub) -> None:
    for call in (
        maintenance.Prune(maintenance_pb2.PruneRequest(), metadata=auth("admin")),
        maintenance.ReplayDecisions(maintenance_pb2.ReplayDecisionsRequest(router=ROUTER.name), metadata=auth()),
    ):
        detail = await refusal(call)
        assert (detail.code, detail.reason) == (grpc.StatusCode.PERMISSION_DENIED, "OPERATOR_ONLY")


async def test_a_dry_run_says_what_pruning_then_removes(
    replica: Replica,
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
    platform_pool: AsyncConnectionPool[Any],
) -> None:
    for _ in range(12):
        await counted(replica, 1)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE runs SET ended_at = now() - interval '1 hour'")
    dry = await maintenance.Prune(maintenance_pb2.PruneRequest(dry_run=True), metadata=auth("operator"))
    [history] = dry.pruned
    assert (history.kind, history.agent) == (maintenance_pb2.RETAINED_KIND_HISTORY, "counting")

    removed, calls = 0, 0
    while True:
        response = await maintenance.Prune(maintenance_pb2.PruneRequest(), metadata=auth("operator"))
        removed += sum(data.row_count for data in response.pruned)
        calls += 1
        if not response.more:
            break
    assert (removed, calls) == (history.row_count, 2)
    again = await maintenance.Prune(maintenance_pb2.PruneRequest(dry_run=True), metadata=auth("operator"))
    assert not again.pruned


async def test_replay_shows_which_runs_would_have_gone_elsewhere_and_what_that_would_have_saved(
    replica: Replica, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
) -> None:
    short, long = await counted(replica, 2), await counted(replica, 6)
    request = maintenance_pb2.ReplayDecisionsRequest(router=ROUTER.name, limits={"max_counts": "3"})
    response = await maintenance.ReplayDecisions(request, metadata=auth("operator"))

    assert (response.run_count, response.decision_count, response.skipped_count) == (2, 8, 0)
    assert response.policy_version == counting_router(CountingPolicy(3)).policy_version
    assert response.diverged_count == 1
    [divergence] = response.divergences
    assert short != divergence.run_id == long
    assert divergence.sequence == 3
    assert (divergence.rule, divergence.destination) == ("go_on", "count")
    assert (divergence.other_rule, divergence.other_destination) == ("max_counts", "report")
    assert divergence.spent_after.model_calls == 3
    assert divergence.spent_after.token_usage.input_tokens == 3 * TOKENS_PER_COUNT[0]
    assert response.spent_after == divergence.spent_after


async def test_replay_looks_no_further_back_than_it_is_told(
    replica: Replica, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
) -> None:
    await counted(replica, 2)
    request = maintenance_pb2.ReplayDecisionsRequest(router=ROUTER.name)
    request.since_time.GetCurrentTime()
    assert (await maintenance.ReplayDecisions(request, metadata=auth("operator"))).decision_count == 0
    request.since_time.seconds -= 60
    assert (await maintenance.ReplayDecisions(request, metadata=auth("operator"))).decision_count == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"router": "nobody.knows"}, "router"), ({"router": ROUTER.name, "limits": {"most": "1"}}, "limits['most']")],
)
async def test_replay_of_what_there_is_not_is_refused(
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub, changes: dict[str, Any], field: str
) -> None:
    request = maintenance_pb2.ReplayDecisionsRequest(**changes)
    detail = await refusal(maintenance.ReplayDecisions(request, metadata=auth("operator")))
    assert (detail.code, [v.field for v in detail.violations]) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
