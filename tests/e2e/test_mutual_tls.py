"""The platform as production has it: mTLS on every hop, the issuer's keys by URL, traces, two runtimes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import runs_pb2

from tests.fixtures.certificates import Authority
from tests.fixtures.client import RunClient
from tests.fixtures.hardened import Hardening, hardening
from tests.fixtures.otlp import Trace, TraceCollector
from tests.fixtures.stack import Platform, World, platform

INNER = ("runtime", "runtime-2", "guard", "sql_executor")


@dataclass(frozen=True)
class Hardened:
    """A platform with everything on, how to reach it, and its traces."""

    platform: Platform
    on: Hardening
    collector: TraceCollector


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hardened(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hardened]:
    async with (
        hardening(tmp_path_factory.mktemp("hardened")) as on,
        TraceCollector() as collector,
        platform(
            harbour, directory=on.folder, service_env=on.service_env(), otlp_endpoint=collector.endpoint,
            runtime_replicas=2,
        ) as running,
    ):  # fmt: skip
        yield Hardened(running, on, collector)


async def test_a_run_goes_through_every_hop_in_one_trace(hardened: Hardened) -> None:
    signalbox = hardened.platform
    async with hardened.on.channel(signalbox.address) as channel:
        asked = await RunClient(channel, signalbox.token("27")).ask("Count devices with temperature > 10")
    assert asked.state == "SUCCEEDED"
    services = {"gateway", "runtime", "guard", "sql_executor", "offline_model"}

    def whole(trace: Trace) -> bool:
        return {span.service for span in trace.spans.values()} == services and not trace.orphans()

    trace = await hardened.collector.trace(asked.run.trace_id, until=whole)
    assert {span.service for span in trace.spans.values()} == services
    assert not trace.orphans()


async def test_callers_by_turns_are_served_by_both_replicas(hardened: Hardened) -> None:
    signalbox = hardened.platform
    async with hardened.on.channel(signalbox.address) as channel:
        caller = RunClient(channel, signalbox.token("27"))
        replicas = set()
        for number in range(12):
            asked = await caller.ask(f"Count devices with temperature > {number}")
            assert asked.state == "SUCCEEDED"
            replicas |= {name for name in ("runtime", "runtime-2") if asked.run.run_id in signalbox.stack.logs(name)}
    assert replicas == {"runtime", "runtime-2"}


@pytest.mark.parametrize("name", ["gateway", *INNER])
async def test_nobody_without_the_authoritys_certificate_gets_in(hardened: Hardened, name: str, tmp_path: Path) -> None:
    address = hardened.platform.stack.service(name).ready.listen
    stranger = Authority(tmp_path, "stranger").issue("caller")
    bare = grpc.ssl_channel_credentials(hardened.on.caller.ca.read_bytes())
    for channel in (
        grpc.aio.insecure_channel(address),
        grpc.aio.secure_channel(address, bare),
        hardened.on.channel(address, stranger),
    ):
        async with channel:
            caller = RunClient(channel, hardened.platform.token("27"))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await caller.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=caller.metadata, timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, refused.value
    async with hardened.on.channel(address) as channel:
        caller = RunClient(channel, "no token")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=caller.metadata, timeout=60)
    assert refused.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED), "it got through"
