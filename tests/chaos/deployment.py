"""A platform to do harm to: replicas of the runtime, a database that can be restarted, an executor that counts."""

from __future__ import annotations

import asyncio
import sqlite3
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from prometheus_client.parser import text_string_to_metric_families
from psycopg.conninfo import conninfo_to_dict

from services.local.postgres import EmbeddedPostgres
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from services.local.stack import LocalStack
from services.local.topology import ModelEndpoint, StackOptions
from tests.chaos.script import script
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.silent_proxy import SilentProxy
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, ServiceEnv

REPLICAS = 3
# Longer than a busy machine may stand still: a lease that ends is a replica that was frozen.
LEASE_S = 10.0
POLL_S = 0.05
# How long a service that was asked to end may take for it.
GRACE_S = 120.0


@dataclass(frozen=True)
class Deployment:
    """Everything that a test breaks or looks at."""

    postgres: EmbeddedPostgres
    stack: LocalStack
    executor: ServiceProcess
    effects_file: Path
    model: ScriptedModel

    @property
    def dsn(self) -> str:
        """The platform's database, as its superuser and directly."""
        return self.postgres.dsn(str(conninfo_to_dict(self.stack.databases.platform_dsn)["dbname"]))

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
        return await metric_of(self.stack.runtimes if services is None else services, name)


async def metric_of(services: Iterable[ServiceProcess], name: str) -> float:
    """The sum of a metric over services."""
    return sum([await asyncio.to_thread(_metric, service.ready.metrics, name) for service in services])


def _metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        families = text_string_to_metric_families(response.read().decode())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)


@asynccontextmanager
async def replaced(service: ServiceProcess, program: Program, directory: Path) -> AsyncIterator[ServiceProcess]:
    """Puts another program in the place of a service, for a while."""
    env = {
        **program.env,
        "SIGNALBOX_LISTEN": service.ready.listen,
        "SIGNALBOX_METRICS_LISTEN": service.ready.metrics,
    }
    other = ServiceProcess(replace(program, env=env), directory, ready_timeout_s=START_TIMEOUT_S)
    await service.stop(grace_s=GRACE_S)
    try:
        await other.start()
        yield other
    finally:
        await other.stop(grace_s=GRACE_S)
        await service.start()


async def kill_and_start(service: ServiceProcess) -> None:
    """Kills a service, and starts it again where it was."""
    await service.kill()
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
async def deployment(
    *,
    replicas: int = REPLICAS,
    service_env: ServiceEnv | None = None,
    base_env: dict[str, str] | None = None,
    model_s: float = 0.0,
    database_wire: SilentProxy | None = None,
    batches: bool = False,
) -> AsyncIterator[Deployment]:
    """Starts all of it; Postgres keeps its data over a restart, and its port.

    `service_env` is for one service each, `base_env` for all. Services reach Postgres through `database_wire`.
    """
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
        script(model, at_least_s=model_s)
        keys = directory / "keys"
        effects_file = directory / "effects.sqlite"
        program = _executor_program(keys / "runs.pub.pem", effects_file)
        executor = ServiceProcess(program, directory, ready_timeout_s=START_TIMEOUT_S)
        stack.push_async_callback(executor.stop)
        await executor.start()
        given = service_env or {}
        options = StackOptions(
            postgres_dsn=_over(database_wire, postgres),
            model=ModelEndpoint(model.base_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL),
            runtime_replicas=replicas,
            batches=batches,
            directory=keys,
            log_level="WARNING",
            ready_timeout_s=START_TIMEOUT_S,
            base_env={**inherited_environment(), **(base_env or {})},
            service_env={
                **given,
                "runtime": {
                    "SIGNALBOX_SQL_EXECUTOR_TARGET": f"ipv4:{executor.ready.listen}",
                    "SIGNALBOX_LEASE_S": f"{LEASE_S:g}",
                    **given.get("runtime", {}),
                },
            },
        )
        platform = await stack.enter_async_context(LocalStack(options))
        yield Deployment(postgres, platform, executor, effects_file, model)


def _over(wire: SilentProxy | None, postgres: EmbeddedPostgres) -> str:
    """How services reach a server."""
    if wire is None:
        return postgres.dsn()
    wire.upstream = f"127.0.0.1:{postgres.port}"
    return postgres.dsn().replace(wire.upstream, wire.address)


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
