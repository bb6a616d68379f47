"""Services that start before what they need: they wait, say for what, and end at once when they are told to."""

from __future__ import annotations

import asyncio
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.settings import EXIT_BAD_SETTINGS
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import reserved_port
from tests.fixtures.silent_proxy import SilentProxy
from tests.fixtures.stack import FORKS

NOWHERE = "127.0.0.1:1"


def logged(process: ServiceProcess) -> list[dict[str, Any]]:
    """What a service has logged so far."""
    return [orjson.loads(line) for line in process.logs().splitlines() if line.startswith("{") and line.endswith("}")]


async def said(process: ServiceProcess, event: str, need: str) -> None:
    """Waits until a service says that it waits for something, or has found it."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while not any(line["event"] == event and need in line["need"] for line in logged(process) if "need" in line):
            assert process.returncode is None, process.logs()
            await asyncio.sleep(0.05)


async def page(address: str, path: str) -> int:
    """The status of a page of the metrics port."""

    def fetch() -> int:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(fetch)


class Place:
    """A folder with keys, and services that are started there."""

    def __init__(self, folder: Path, metrics: str) -> None:
        self.folder = folder
        self.metrics = metrics
        self.keys: KeyPair = generate_keypair()
        self.key_file = folder / "key.pem"

    def process(self, service: str, env: Mapping[str, str]) -> ServiceProcess:
        """A service that has not been started."""
        common = {"SIGNALBOX_METRICS_LISTEN": self.metrics}
        program = Program(service, ["-P", "-m", f"services.{service}"], {**inherited_environment(), **common, **env})
        return ServiceProcess(program, self.folder, ready_timeout_s=START_TIMEOUT_S, forks=FORKS)

    def guard(self) -> ServiceProcess:
        """A guard, which needs no more than a key."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self.key_file),
            "SIGNALBOX_MODEL_BASE_URL": f"http://{NOWHERE}/v1",
            "SIGNALBOX_GUARD_MODEL": "guard",
        }
        return self.process("guard", env)

    def runtime(self, dsn: str) -> ServiceProcess:
        """A runtime, which needs a database, and looks for peers."""
        private, public = self.folder / "private.pem", self.folder / "public.pem"
        private.write_text(self.keys.private_pem)
        public.write_text(self.keys.public_pem)
        env = {
            "SIGNALBOX_DATABASE_DSN": dsn,
            "SIGNALBOX_GUARD_TARGET": f"ipv4:{NOWHERE}",
            "SIGNALBOX_SQL_EXECUTOR_TARGET": f"ipv4:{NOWHERE}",
            "SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE": str(private),
            "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": str(public),
            "SIGNALBOX_MODEL_BASE_URL": f"http://{NOWHERE}/v1",
            "SIGNALBOX_AGENT_MODEL": "agent",
            "SIGNALBOX_FORMAT_MODEL": "format",
        }
        return self.process("runtime", env)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with reserved_port() as port:
        yield Place(tmp_path, f"127.0.0.1:{port}")


@asynccontextmanager
async def starting(process: ServiceProcess) -> AsyncIterator[asyncio.Task[Any]]:
    """A service that starts, and whose start a test awaits or not."""
    task = asyncio.create_task(process.start())
    try:
        yield task
    finally:
        await process.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_that_is_not_there_yet_is_waited_for(place: Place) -> None:
    guard = place.guard()
    async with starting(guard) as start:
        await said(guard, "waiting", "key.pem")
        assert [await page(place.metrics, path) for path in ("/livez", "/healthz")] == [200, 503]
        place.key_file.write_text(place.keys.public_pem)
        await start
        assert await page(place.metrics, "/healthz") == 200
        await said(guard, "found", "key.pem")


async def test_whoever_waits_ends_when_told_to(place: Place) -> None:
    guard = place.guard()
    async with starting(guard):
        await said(guard, "waiting", "key.pem")
        guard.signal(signal.SIGTERM)
        async with asyncio.timeout(START_TIMEOUT_S):
            assert await guard.wait() == 0
    assert "Traceback" not in guard.logs()


async def test_a_wrong_setting_ends_the_service_at_once(place: Place) -> None:
    guard = place.process("guard", {"SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(place.key_file)})
    async with starting(guard) as start:
        await asyncio.wait([start])
        assert guard.returncode == EXIT_BAD_SETTINGS
    assert "waiting" not in guard.logs()


async def test_a_database_is_waited_for_and_its_loss_costs_neither_life_nor_readiness(
    place: Place, platform_dsn: str
) -> None:
    parts = urlsplit(platform_dsn)
    async with SilentProxy(NOWHERE) as wire:
        dsn = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{wire.address}").geturl()
        runtime = place.runtime(dsn)
        async with starting(runtime) as start:
            await said(runtime, "waiting", "the platform database")
            assert await page(place.metrics, "/livez") == 200
            wire.upstream = f"{parts.hostname}:{parts.port}"
            ready = await start
            await said(runtime, "waiting", "the guard")
            async with grpc.aio.insecure_channel(ready.listen) as channel:
                await refused_with(channel, place.keys, "RUN_NOT_FOUND")
                wire.upstream = NOWHERE
                wire.cut()
                await refused_with(channel, place.keys, "DATABASE_AWAY")
                assert [await page(place.metrics, path) for path in ("/livez", "/healthz")] == [200, 200]
                health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
                assert health.status == health_pb2.HealthCheckResponse.SERVING
                wire.upstream = f"{parts.hostname}:{parts.port}"
                await refused_with(channel, place.keys, "RUN_NOT_FOUND")


async def refused_with(channel: grpc.aio.Channel, keys: KeyPair, reason: str) -> None:
    """Asks for a run that there is none of, until that is refused for a reason; any other must be one of retrying."""
    metadata = (bearer_metadata(CallerTokenMinter(keys.private_pem).mint(Caller("27"))),)
    request = runs_pb2.GetRunRequest(run_id="01900000-0000-7000-8000-000000000000")
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await runs_pb2_grpc.RunServiceStub(channel).GetRun(request, metadata=metadata, timeout=60)
            detail = error_detail(refused.value)
            if detail.reason == reason:
                return
            assert detail.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND)
            await asyncio.sleep(0.05)
