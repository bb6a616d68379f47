"""The reference executor keeps the contract, with replicas and as a process that dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.settings import ServiceSettings
from services.kit.tools.executor import SERVICE_NAME
from services.kit.wire.server import Registration, Service, running
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from tests.contract.executor_conformance import WritingExecutorContract
from tests.contract.executor_subject import AUDIENCE, RunOf, Sample, Subject
from tests.contract.reference_executor import Effects, ReferenceExecutor, increment_counter, read_counter
from tests.fixtures.stack import FORKS

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub


@asynccontextmanager
async def reference(file: Path, keys: KeyPair) -> AsyncIterator[Subject]:
    effects = Effects(file)

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        verifier = RunTokenVerifier(keys.public_pem, AUDIENCE)
        servicer = ReferenceExecutor(verifier, [increment_counter, read_counter], effects)
        add = tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server
        return Service([Registration(add, servicer, SERVICE_NAME)])

    async def applied() -> int:
        [count] = effects.database.execute("SELECT count(*) FROM effects WHERE counter = 'visits'").fetchone()
        return int(count)

    writing = Sample(
        increment_counter.name,
        {"name": "visits", "amount": 2},
        others={"name": "visits", "amount": 3},
        failing={"name": "visits", "amount": -1},
        later={"name": "visits", "amount": 0},
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
    async def subject(self, tmp_path: Path) -> AsyncIterator[Subject]:
        keys, file = generate_keypair(), tmp_path / "effects.sqlite"
        key_file = tmp_path / "run_token.pem"
        key_file.write_text(keys.public_pem, encoding="ascii")

        @asynccontextmanager
        async def mortal(die_at: int) -> AsyncIterator[ToolExecutorServiceAsyncStub]:
            env = {
                **inherited_environment(),
                "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(key_file),
                "SIGNALBOX_EFFECTS_FILE": str(file),
                "SIGNALBOX_DIE_AT_STEP": str(die_at),
            }
            program = Program(f"mortal-{die_at}", ["-P", "-m", "tests.contract.reference_process"], env)
            process = ServiceProcess(program, tmp_path, forks=FORKS)
            try:
                ready = await process.start()
                async with grpc.aio.insecure_channel(ready.listen) as channel:
                    yield tools_pb2_grpc.ToolExecutorServiceStub(channel)
            finally:
                await process.kill()

        async with reference(file, keys) as subject, reference(file, keys) as other:
            yield replace(subject, replica=other.stub, mortal=mortal)


async def test_results_outlive_the_process(tmp_path: Path) -> None:
    keys, file, run_id = generate_keypair(), tmp_path / "effects.sqlite", "run-1"
    async with reference(file, keys) as subject:
        assert subject.writing is not None
        first = await RunOf(subject, run_id, epoch=2).call(subject.writing)
    async with reference(file, keys) as subject:
        assert subject.writing is not None
        assert await RunOf(subject, run_id, epoch=2).call(subject.writing) == first
        _, reason = await RunOf(subject, run_id, epoch=1).refused(subject.writing)
        assert reason == "STALE_EPOCH"
