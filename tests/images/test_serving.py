"""The images serve: a platform whose services are containers, asked through its gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.request import urlopen

import grpc
import psycopg
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from signalbox.v1 import runs_pb2

from services.local.topology import OFFLINE_MODEL, RUNTIME, StackOptions
from tests.contract.deploy.helm import ROOT
from tests.fixtures.client import RunClient
from tests.fixtures.patience import START_TIMEOUT_S
from tests.images.containers import ContainerStack, environment
from tests.images.engine import IMAGES, engine

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORLD = ROOT / "examples" / "harbour"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ContainerStack]:
    """Every service as a container."""
    directory = tmp_path_factory.mktemp("stack")
    for folder in (directory, *directory.parents[:2]):
        folder.chmod(0o755)
    options = StackOptions(
        code_agents=True,
        graph_policy=WORLD / "graph_policy.yaml",
        directory=directory,
        base_env=environment(),
        ready_timeout_s=START_TIMEOUT_S,
        # The cache of repositories is in the container's own /tmp.
        service_env={"code_executor": {"SIGNALBOX_CODE_CACHE_DIR": "/tmp/code", "SIGNALBOX_CODE_LOCAL_ROOTS": "[]"}},  # noqa: S108 - in the container
    )
    made = ContainerStack(options)
    made.engine = engine()
    async with made:
        yield made


async def test_every_service_starts_and_says_that_it_serves(stack: ContainerStack) -> None:
    assert stack.graph_missing == ""
    assert {process.name for process in stack.services} == set(IMAGES)
    for process in stack.services:
        if process.name == OFFLINE_MODEL:
            answer = await asyncio.to_thread(urlopen, f"http://{process.ready.listen}/healthz", timeout=30)
            assert answer.status == 200
            continue
        async with grpc.aio.insecure_channel(process.ready.listen) as channel:
            checked = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert checked.status == health_pb2.HealthCheckResponse.SERVING, process.name


async def test_they_answer_a_question_together(stack: ContainerStack) -> None:
    async with grpc.aio.insecure_channel(stack.gateway_address) as channel:
        asked = await RunClient(channel, stack.token("27")).ask("How many devices do I have?")
    assert asked.run.state == runs_pb2.RUN_STATE_SUCCEEDED
    assert asked.run.output.data_chat.answer


async def test_the_chart_test_asks_from_the_gateways_image(stack: ContainerStack) -> None:
    token = stack.directory / "token"
    token.write_text(stack.token("27"))
    token.chmod(0o644)
    command = (
        "ask", f"--target={stack.gateway_address}", f"--token-file={token}", "--question=How many devices do I have?",
    )  # fmt: skip
    options = ("--network=host", f"--volume={token}:{token}:ro")
    asked = engine().run("gateway", *options, entry="signalbox", command=command)
    assert asked.status == 0, asked.out + asked.err
    assert "answered" in asked.out


async def test_the_images_carry_the_commands_of_their_services(stack: ContainerStack) -> None:
    """Those of the runtime; what operations.md does with the SQL executor's is done by its own test."""
    with psycopg.connect(stack.databases.platform_dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE anew")
    fresh = stack.databases.platform_dsn.rpartition("/")[0] + "/anew"
    dsn = ("--network=host", f"--env=SIGNALBOX_DATABASE_DSN={fresh}")
    migrated = engine().run(RUNTIME, *dsn, entry="signalbox", command=("migrate",))
    assert migrated.status == 0, migrated.out + migrated.err
    checked = engine().run(RUNTIME, *dsn, entry="signalbox", command=("compat-check",))
    assert (checked.status, checked.out) == (0, "0 unfinished runs, of which 0 could not go on\n"), checked.err
    proved = engine().run(RUNTIME, entry="signalbox", command=("prove",))
    assert proved.status == 0, proved.err
    unknown = engine().run("guard", entry="signalbox", command=("prove",))
    assert (unknown.status, unknown.out) == (2, "")
    assert "no command 'prove'; the image of guard has: none" in unknown.err


async def test_they_end_in_order_when_told_to(stack: ContainerStack) -> None:
    """Comes last: it stops them."""
    for process in reversed(stack.services):
        await process.stop()
        assert process.returncode == 0, f"{process.name}: {process.logs()[-2000:]}"
