"""The whole platform on one machine, as an async context manager.

    async with LocalStack(StackOptions(runtime_replicas=2)) as stack:
        channel = grpc.aio.insecure_channel(stack.gateway_address)
        token = stack.token("27", ["admin"])
        await stack.service("runtime").kill()

`signalbox up`, `signalbox demo`, the end-to-end tests and the benchmarks all use it. When the block ends, every
process, database and directory that it made is gone.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from services.cli.local.concurrency import together
from services.cli.local.database import WORLD_POLICY, Databases, prepare_databases
from services.cli.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, DevelopmentKeys, mint_caller_token
from services.cli.local.policy_file import restricted_tables
from services.cli.local.processes import Program, ServiceProcess, stop_all
from services.cli.local.topology import (
    GATEWAY,
    ModelEndpoint,
    StackOptions,
    Topology,
    offline_endpoint,
    replica_name,
)

CODE_CACHE = "code-cache"

T = TypeVar("T")


@dataclass(frozen=True)
class _Backends:
    """What the runtime calls and needs no database of ours; an empty address: not there."""

    model: ModelEndpoint
    guard: str
    code_executor: str = ""
    evaluator: str = ""


def _quiet(_: str) -> None:
    """Report nothing."""


class LocalStack:
    """Every service as a process of its own; `report` is told in words what is being done."""

    def __init__(self, options: StackOptions | None = None, *, report: Callable[[str], None] = _quiet) -> None:
        self.options = options or StackOptions()
        self._report = report
        self._resources = AsyncExitStack()
        self._services: dict[str, ServiceProcess] = {}
        self._directory: Path | None = None
        self._keys: DevelopmentKeys | None = None
        self._databases: Databases | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._resources.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.aclose()

    @property
    def gateway_address(self) -> str:
        """host:port of the gateway."""
        return self.service(GATEWAY).ready.listen

    @property
    def directory(self) -> Path:
        """Where keys and logs are."""
        return _started(self._directory)

    @property
    def keys(self) -> DevelopmentKeys:
        """The development keys of this start."""
        return _started(self._keys)

    @property
    def databases(self) -> Databases:
        """Where the platform's and the user's databases are."""
        return _started(self._databases)

    @property
    def runtimes(self) -> tuple[ServiceProcess, ...]:
        """The replicas of the runtime."""
        return tuple(self.service(replica_name(number)) for number in range(1, self.options.runtime_replicas + 1))

    @property
    def services(self) -> tuple[ServiceProcess, ...]:
        """Every process, in the order in which callers depend on them."""
        return tuple(self._services.values())

    def service(self, name: str) -> ServiceProcess:
        """A service by name; further replicas of the runtime are `runtime-2`, `runtime-3` and on."""
        try:
            return self._services[name]
        except KeyError:
            raise KeyError(f"no service {name!r} here; there are: {', '.join(self._services)}") from None

    def logs(self, name: str) -> str:
        """Everything a service wrote so far."""
        return self.service(name).logs()

    def token(self, subject: str, roles: Iterable[str] = ()) -> str:
        """A caller's token that the gateway accepts."""
        return mint_caller_token(
            self.keys.signing_key,
            subject=subject,
            roles=roles,
            issuer=DEVELOPMENT_ISSUER,
            audience=DEVELOPMENT_AUDIENCE,
        )

    async def wait_for_exit(self) -> ServiceProcess:
        """Wait until any service ends by itself, and return it."""
        waiting = {asyncio.create_task(service.wait()): service for service in self.services}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[done.pop()]
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _start(self) -> None:
        self._directory = self._resources.enter_context(_work_directory(self.options.directory))
        self._keys = DevelopmentKeys.create(self._directory)
        topology = Topology(self.options, self._keys)
        # Entered in this order, so that services stop before the databases they use, however far the start came.
        databases = await self._resources.enter_async_context(AsyncExitStack())
        self._resources.push_async_callback(self._stop)
        self._databases, backends = await together(
            databases.enter_async_context(prepare_databases(self.options, topology, self._directory, self._report)),
            self._start_backends(topology),
        )
        await self._start_rest(topology, self._databases, backends)

    async def _start_backends(self, topology: Topology) -> _Backends:
        model = self.options.model
        if model is None:
            self._report("starting the offline model")
            model = offline_endpoint((await self._process(topology.offline_model()).start()).listen)
        user_database = self.options.user_database
        restricted = restricted_tables(user_database.sql_policy if user_database else WORLD_POLICY)
        wanted = [topology.guard(model, restricted)]
        if self.options.code_agents:
            wanted += [topology.code_executor(self.directory / CODE_CACHE), topology.evaluator(model)]
        started = await together(*(self._process(program).start() for program in wanted))
        return _Backends(model, *(ready.listen for ready in started))

    async def _start_rest(self, topology: Topology, databases: Databases, backends: _Backends) -> None:
        self._report("starting the services")
        executor = await self._process(topology.sql_executor(databases.user_database)).start()
        replicas = [
            self._process(
                topology.runtime(
                    number,
                    backends.model,
                    dsn=databases.platform_dsn,
                    guard=backends.guard,
                    sql_executor=executor.listen,
                    code_executor=backends.code_executor,
                    evaluator=backends.evaluator,
                )
            )
            for number in range(1, self.options.runtime_replicas + 1)
        ]
        await together(*(replica.start() for replica in replicas))
        await self._process(topology.gateway([replica.ready.listen for replica in replicas])).start()

    def _process(self, program: Program) -> ServiceProcess:
        process = ServiceProcess(program, self.directory, ready_timeout_s=self.options.ready_timeout_s)
        self._services[program.name] = process
        return process

    async def _stop(self) -> None:
        await stop_all(self.services, grace_s=self.options.shutdown_grace_s + 5)


@contextmanager
def _work_directory(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        yield directory
        return
    temporary = Path(tempfile.mkdtemp(prefix="signalbox-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary)


def _started(value: T | None) -> T:
    if value is None:
        raise RuntimeError("the local platform has not been started")
    return value
