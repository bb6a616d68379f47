"""The reference executor keeps the contract, in memory and on file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity import RunTokenVerifier, generate_keypair
from services.kit.server import Registration, Service, running
from services.kit.settings import ServiceSettings
from tests.contract.executor_conformance import RunOf, Sample, Subject, WritingExecutorContract
from tests.contract.reference_executor import Effects, ReferenceExecutor, increment_counter, read_counter


@asynccontextmanager
async def reference(effects: Effects) -> AsyncIterator[Subject]:
    keys = generate_keypair()

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        servicer = ReferenceExecutor(RunTokenVerifier(keys.public_pem), [increment_counter, read_counter], effects)
        add = tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server
        return Service([Registration(add, servicer, "signalbox.v1.ToolExecutorService")])

    async def applied() -> int:
        [count] = effects.database.execute("SELECT count(*) FROM effects WHERE counter = 'visits'").fetchone()
        return int(count)

    writing = Sample(
        increment_counter.name,
        {"name": "visits", "amount": 2},
        others={"name": "visits", "amount": 3},
        failing={"name": "visits", "amount": -1},
        effects=applied,
    )
    async with (
        running("reference", ServiceSettings(shutdown_grace_s=1), build) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        yield Subject(
            tools_pb2_grpc.ToolExecutorServiceStub(channel),
            keys,
            Sample(read_counter.name, {"name": "visits"}),
            writing,
        )


class TestReferenceExecutor(WritingExecutorContract):
    @pytest.fixture
    async def subject(self) -> AsyncIterator[Subject]:
        async with reference(Effects()) as subject:
            yield subject


async def test_results_outlive_the_process(tmp_path: Path) -> None:
    file = tmp_path / "effects.sqlite"
    run_id = "run-1"
    async with reference(Effects(file)) as subject:
        assert subject.writing is not None
        first = await RunOf(subject, run_id, epoch=2).call(subject.writing)
    async with reference(Effects(file)) as subject:
        assert subject.writing is not None
        assert await RunOf(subject, run_id, epoch=2).call(subject.writing) == first
        _, reason = await RunOf(subject, run_id, epoch=1).refused(subject.writing)
        assert reason == "STALE_EPOCH"
