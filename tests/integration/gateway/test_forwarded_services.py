"""Services beside RunService get the same entrance: token, role, validation, and the gateway's word to the runtime."""

from __future__ import annotations

import grpc
import pytest
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc, threads_pb2, threads_pb2_grpc

from tests.fixtures.refusals import refusal
from tests.integration.gateway.conftest import Platform


@pytest.fixture
def threads(platform: Platform) -> threads_pb2_grpc.ThreadServiceAsyncStub:
    return threads_pb2_grpc.ThreadServiceStub(platform.channel)


@pytest.fixture
def maintenance(platform: Platform) -> maintenance_pb2_grpc.MaintenanceServiceAsyncStub:
    return maintenance_pb2_grpc.MaintenanceServiceStub(platform.channel)


async def test_a_call_is_forwarded_with_its_caller(
    platform: Platform, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    request = threads_pb2.GetThreadRequest(thread_id="talk")
    response = await threads.GetThread(request, metadata=platform.auth("27", roles=["reader"]))
    assert response.thread.thread_id == "talk"
    [(method, received, caller)] = platform.calls
    assert (method, received, caller.subject, caller.roles) == ("GetThread", request, "27", {"reader"})


async def test_without_a_token_nothing_gets_in(
    platform: Platform,
    threads: threads_pb2_grpc.ThreadServiceAsyncStub,
    maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub,
) -> None:
    for call in (
        threads.GetThread(threads_pb2.GetThreadRequest(thread_id="talk")),
        maintenance.Prune(maintenance_pb2.PruneRequest()),
    ):
        assert (await refusal(call)).code is grpc.StatusCode.UNAUTHENTICATED
    assert platform.calls == []


async def test_a_request_that_breaks_the_rules_is_refused(
    platform: Platform, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    detail = await refusal(
        threads.GetThread(threads_pb2.GetThreadRequest(thread_id="no spaces"), metadata=platform.auth())
    )
    assert (detail.code, detail.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert [violation.field for violation in detail.violations] == ["thread_id"]
    assert platform.calls == []


@pytest.mark.parametrize("roles", [[], ["admin"], ["graph_writer"]])
async def test_maintenance_is_for_operators(
    platform: Platform, maintenance: maintenance_pb2_grpc.MaintenanceServiceAsyncStub, roles: list[str]
) -> None:
    detail = await refusal(maintenance.Prune(maintenance_pb2.PruneRequest(), metadata=platform.auth(roles=roles)))
    assert (detail.code, detail.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    assert platform.calls == []
    await maintenance.Prune(maintenance_pb2.PruneRequest(dry_run=True), metadata=platform.auth(roles=["operator"]))
    [(method, received, _)] = platform.calls
    assert (method, received.dry_run) == ("Prune", True)
