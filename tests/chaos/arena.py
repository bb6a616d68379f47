"""A platform to do harm to: replicas of the runtime, a database that can be restarted, an executor that counts."""

from __future__ import annotations

import asyncio
import sqlite3
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from prometheus_client.parser import text_string_to_metric_families

from services.cli.local.postgres import EmbeddedPostgres
from services.cli.local.processes import Program, ServiceProcess
from services.cli.local.stack import LocalStack
from services.cli.local.topology import ModelEndpoint, StackOptions
from services.cli.settings import inherited_environment
from tests.chaos.script import script
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import place_kept
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL

REPLICAS = 3
# Longer than a busy machine may stand still: a lease that ends is a replica that was frozen.
LEASE_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True)
class Arena:
    """Everything that a test breaks or looks at."""

    postgres: EmbeddedPostgres
    stack: LocalStack
    executor: ServiceProcess
    effects_file: Path

    @property
    def dsn(self) -> str:
        """The platform's database, as its superuser."""
        return self.stack.databases.platform_dsn

    @asynccontextmanager
    async def database(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection to the platform's database."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            yield connection

    async def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement on the platform's database."""
        async with self.database() as connection:
            cursor = await connection.execute(statement.encode(), parameters or None)
            return await cursor.fetchall()

    def effects(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement on what the executor keeps."""
        with sqlite3.connect(f"file:{self.effects_file}?mode=ro", uri=True) as database:
            return database.execute(statement).fetchall()

    async def metric(self, name: str, services: Iterable[ServiceProcess] | None = None) -> float:
        """The sum of a metric over services, the runtime's replicas by default."""
        chosen = self.stack.runtimes if services is None else services
        return sum([await asyncio.to_thread(_metric, service.ready.metrics, name) for service in chosen])


def _metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        families = text_string_to_metric_families(response.read().decode())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)


async def kill_and_start(service: ServiceProcess) -> None:
    """Kills a service, and starts it again where it was."""
    await service.kill()
    with place_kept(service):
        await service.start()


async def until(condition: Callable[[], Awaitable[bool]], what: str, *, timeout_s: float = 120.0) -> None:
    """Waits for a condition; raises TimeoutError that says for what."""
    try:
        async with asyncio.timeout(timeout_s):
            while not await condition():  # noqa: ASYNC110 - what is waited for happens in other processes
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise TimeoutError(f"waited {timeout_s:g} s for {what}") from error


@asynccontextmanager
async def arena(*, replicas: int = REPLICAS, runtime_env: dict[str, str] | None = None) -> AsyncIterator[Arena]:
    """Starts all of it; Postgres keeps its data over a restart, and its port."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(_work_directory())
        # What is committed must be there after a crash of the server, if not of the machine.
        settings = {"synchronous_commit": "on"}
        data_dir = directory / "postgres" / "data"
        postgres = EmbeddedPostgres(
            data_dir=data_dir, durable=False, settings=settings, start_timeout_s=START_TIMEOUT_S
        )
        await asyncio.to_thread(postgres.start)
        stack.callback(postgres.stop)
        model = await stack.enter_async_context(ScriptedModel(record=False))
        script(model)
        keys = directory / "keys"
        effects_file = directory / "effects.sqlite"
        program = _executor_program(keys / "runs.pub.pem", effects_file)
        executor = ServiceProcess(program, directory, ready_timeout_s=START_TIMEOUT_S)
        stack.push_async_callback(executor.stop)
        await executor.start()
        options = StackOptions(
            postgres_dsn=postgres.dsn(),
            model=ModelEndpoint(model.base_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL),
            runtime_replicas=replicas,
            directory=keys,
            log_level="WARNING",
            ready_timeout_s=START_TIMEOUT_S,
            service_env={
                "runtime": {
                    "SIGNALBOX_SQL_EXECUTOR_TARGET": f"ipv4:{executor.ready.listen}",
                    "SIGNALBOX_LEASE_S": f"{LEASE_S:g}",
                    **(runtime_env or {}),
                }
            },
        )
        platform = await stack.enter_async_context(LocalStack(options))
        yield Arena(postgres, platform, executor, effects_file)


@contextmanager
def _work_directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="signalbox-chaos-") as name:
        directory = Path(name)
        directory.chmod(0o755)  # as root, the server runs as another user
        yield directory


def _executor_program(key: Path, effects_file: Path) -> Program:
    env = {
        **inherited_environment(),
        "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(key),
        "SIGNALBOX_EFFECTS_FILE": str(effects_file),
        "SIGNALBOX_LOG_LEVEL": "WARNING",
    }
    return Program("counting_executor", ["-P", "-m", "tests.chaos.counting_executor"], env)
