"""The local platform as tests and benchmarks use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from signalbox.v1 import runs_pb2

from services.cli.ask import Question
from services.cli.client import Connection, open_gateway
from services.local.postgres import EmbeddedPostgres
from services.local.processes import CommandFailed, StartFailed
from services.local.stack import LocalStack
from services.local.topology import StackOptions
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.postgres import PostgresCluster

COUNT = "Count devices with temperature > 10"


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[PostgresCluster]:
    """A cluster apart: a platform sets the passwords of roles, which are a cluster's and other tests' as well."""
    with EmbeddedPostgres(durable=False, start_timeout_s=START_TIMEOUT_S) as server:
        yield PostgresCluster(server)


async def ask(stack: LocalStack, question: str, subject: str = "27") -> runs_pb2.Run:
    async with open_gateway(Connection(stack.gateway_address, stack.token(subject))) as gateway:
        async for event in gateway.execute(Question(question).request(), timeout_s=60):
            if event.WhichOneof("event") == "run_ended":
                return event.run_ended.run
    pytest.fail("the stream ended without the end of the run")


def databases(cluster: PostgresCluster) -> set[str]:
    with psycopg.connect(cluster.dsn()) as connection:
        return {str(row[0]) for row in connection.execute("SELECT datname FROM pg_database").fetchall()}


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_services_can_be_killed_and_restarted_and_nothing_is_left(own_cluster: PostgresCluster) -> None:
    before = databases(own_cluster)
    told: list[str] = []
    async with LocalStack(StackOptions(postgres_dsn=own_cluster.dsn()), report=told.append) as stack:
        directory = stack.directory
        assert len(databases(own_cluster) - before) == 2
        assert (await ask(stack, COUNT)).state == runs_pb2.RUN_STATE_SUCCEEDED
        for name in ("runtime", "guard", "sql_executor"):
            address = stack.service(name).ready.listen
            await stack.service(name).kill()
            assert (await stack.service(name).start()).listen == address
        run = await ask(stack, COUNT)
        assert run.output.data_chat.rows.rows[0].values[0].int_value == 6
        assert "serving" in stack.logs("gateway")
        with pytest.raises(KeyError, match="there are: offline_model, guard"):
            stack.service("poet")
        pids = [service.pid for service in stack.services]
    assert "starting the services" in told
    assert databases(own_cluster) == before
    assert not directory.exists()
    assert not [pid for pid in pids if lives(pid)]


async def test_a_service_that_does_not_start_takes_everything_down_again(
    own_cluster: PostgresCluster, tmp_path: Path
) -> None:
    before = databases(own_cluster)
    options = StackOptions(
        postgres_dsn=own_cluster.dsn(),
        directory=tmp_path / "stack",
        service_env={"guard": {"SIGNALBOX_SHUTDOWN_GRACE_S": "soon"}},
    )
    stack = LocalStack(options)
    with pytest.raises(StartFailed, match=r"(?s)guard ended with status 2 .*SIGNALBOX_SHUTDOWN_GRACE_S: "):
        await stack.__aenter__()
    assert [service.name for service in stack.services if service.running] == []
    assert databases(own_cluster) == before


async def test_a_database_that_cannot_be_prepared_is_told_with_its_reason(own_cluster: PostgresCluster) -> None:
    before = databases(own_cluster)
    options = StackOptions(postgres_dsn=own_cluster.dsn(), platform_dsn="postgresql://nobody@127.0.0.1:1/none")
    stack = LocalStack(options)
    with pytest.raises(CommandFailed, match=r"(?s)migrate ended with status 2.*onnection"):
        await stack.__aenter__()
    assert [service.name for service in stack.services if service.running] == []
    assert databases(own_cluster) == before
