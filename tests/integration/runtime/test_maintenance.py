"""MaintenanceService: pruning and replay over gRPC, for operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc

from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.maintenance_servicer import MaintenanceServicer
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.limit_changes import LimitChanges
from services.runtime.engine.retention import Pruner
from services.runtime.engine.serde import make_serde
from services.runtime.routing.digest import policy_version
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import (
    TOKENS_PER_COUNT,
    Counting,
    CountingPolicy,
    Replica,
    counting_router,
    gateway_word,
    serving,
)
from tests.integration.runtime.conftest import StartReplica, ended, new_run

ROUTER = counting_router(CountingPolicy())


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
async def maintenance(
    platform_pool: PlatformPool,
) -> AsyncIterator[maintenance_pb2_grpc.MaintenanceServiceAsyncStub]:
    """The service alone."""

    def make(callers: Callers) -> Registration:
        pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {}, batch=1)
        servicer = MaintenanceServicer(
            callers, pruner, Ledger(platform_pool), {ROUTER.name: ROUTER}, LimitChanges(platform_pool)
        )
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
    platform_pool: PlatformPool,
) -> None:
    for _ in range(12):
        await counted(replica, 1)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET ended_at = now() - interval '1 hour'")
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
    assert response.policy_version == policy_version(counting_router(CountingPolicy(3)).policy)
    assert response.diverged_count == 1
    [divergence] = response.divergences
    assert short != divergence.run_id == long
    assert divergence.sequence == 3
    assert (divergence.rule, divergence.destination) == ("go_on", "count")
    assert (divergence.other_rule, divergence.other_destination) == ("max_counts", "report")
    assert divergence.spent_after.model_calls == 3
    assert divergence.spent_after.token_usage.input_tokens == 3 * TOKENS_PER_COUNT[0]
    assert response.spent_after == divergence.spent_after


async def verified(
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
) -> maintenance_pb2.VerifyDecisionsResponse:
    """What an operator is told of the ledger."""
    return await maintenance.VerifyDecisions(maintenance_pb2.VerifyDecisionsRequest(), metadata=auth("operator"))


async def test_every_decision_comes_out_again_by_the_policy_that_it_was_made_by(
    start_replica: StartReplica, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
) -> None:
    # The table that decides again has other limits than the runs were decided by.
    await counted(await start_replica(Counting(CountingPolicy(max_counts=3))), 6)
    await counted(await start_replica(), 2)
    response = await verified(maintenance)
    assert (response.decision_count, response.skipped_count, response.disagreement_count) == (5, 0, 0)


async def test_a_decision_that_comes_out_otherwise_is_named_with_its_facts(
    replica: Replica,
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
    platform_pool: PlatformPool,
) -> None:
    run_id = await counted(replica, 3)
    async with platform_pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.decisions SET facts = jsonb_set(facts, '{until}', '1') WHERE sequence = 2"
        )
    response = await verified(maintenance)
    assert (response.decision_count, response.skipped_count, response.disagreement_count) == (3, 0, 1)
    [found] = response.disagreements
    assert (found.run_id, found.sequence, found.router) == (run_id, 2, ROUTER.name)
    assert dict(found.facts)["until"] == 1
    assert (found.rule, found.destination, found.other_rule, found.other_destination) == (
        "go_on", "count", "done", "report",
    )  # fmt: skip


async def test_what_can_not_be_decided_again_is_counted(
    replica: Replica,
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
    platform_pool: PlatformPool,
) -> None:
    await counted(replica, 4)
    async with platform_pool.connection() as connection:
        for change in ("facts = '{}'", "policy_version = 'unknown'", "router = 'counting.gone'"):
            await connection.execute(
                f"UPDATE platform.decisions SET {change} WHERE sequence = (SELECT min(sequence) FROM platform.decisions"  # noqa: S608
                f" WHERE facts <> '{{}}' AND policy_version <> 'unknown' AND router = '{ROUTER.name}')"
            )
    response = await verified(maintenance)
    assert (response.decision_count, response.skipped_count, response.disagreement_count) == (4, 3, 0)


async def test_replay_looks_no_further_back_than_it_is_told(
    replica: Replica, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub
) -> None:
    await counted(replica, 2)
    request = maintenance_pb2.ReplayDecisionsRequest(router=ROUTER.name)
    request.since_time.GetCurrentTime()
    assert (await maintenance.ReplayDecisions(request, metadata=auth("operator"))).decision_count == 0
    request.since_time.seconds -= 60
    assert (await maintenance.ReplayDecisions(request, metadata=auth("operator"))).decision_count == 2


async def test_a_time_that_no_calendar_has_is_refused(
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
) -> None:
    replay = maintenance_pb2.ReplayDecisionsRequest(router=ROUTER.name)
    verify = maintenance_pb2.VerifyDecisionsRequest()
    for request in (replay, verify):
        request.since_time.seconds = 10**15
    for call in (maintenance.ReplayDecisions(replay, metadata=auth("operator")),
                 maintenance.VerifyDecisions(verify, metadata=auth("operator"))):  # fmt: skip
        assert (await refusal(call)).code is grpc.StatusCode.INVALID_ARGUMENT


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
