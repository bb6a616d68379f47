"""The whole platform on one machine, as an async context manager.

    async with LocalStack(StackOptions(runtime_replicas=2)) as stack:
        channel = grpc.aio.insecure_channel(stack.gateway_address)
        token = stack.token("27", ["admin"])
        await stack.service("runtime").kill()

`signalbox up`, `signalbox demo`, the end-to-end tests and the benchmarks all use it. When the block ends, every
process, database and directory that it made is gone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

from services.local.concurrency import together
from services.local.database import (
    STEP_TIMEOUT_S,
    WORLD_GRAPH_POLICY,
    WORLD_POLICY,
    WORLD_SUBJECTS,
    WORLD_VOCABULARY,
    Databases,
    find_cluster,
    prepare_databases_in,
)
from services.local.falkordb import FalkorServer, missing_for_falkordb
from services.local.fork_server import ForkServer
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, DevelopmentKeys, mint_issuer_token
from services.local.policy_file import owner_columns, restricted_tables
from services.local.postgres_directory import GRAPH_DIRECTORY
from services.local.processes import Program, ServiceProcess, run_to_end, stop_all
from services.local.topology import (
    BATCHES,
    GATEWAY,
    GRAPH_URL_VARIABLE,
    HTTP_API,
    ModelEndpoint,
    StackOptions,
    Topology,
    graph_of,
    numbered,
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
    graph_executor: str = ""
    mcp_executor: str = ""


def _quiet(_: str) -> None:
    """Reports nothing."""


class LocalStack:
    """Every service as a process of its own; `report` is told in words what is being done.

    Without `forks`, it has a fork server for itself.
    """

    def __init__(
        self,
        options: StackOptions | None = None,
        *,
        report: Callable[[str], None] = _quiet,
        forks: ForkServer | None = None,
    ) -> None:
        self.options = options or StackOptions()
        self._forks = forks
        self._report = report
        self._resources = AsyncExitStack()
        self._services: dict[str, ServiceProcess] = {}
        self._directory: Path | None = None
        self._keys: DevelopmentKeys | None = None
        self._databases: Databases | None = None
        self._graph_database: FalkorServer | None = None
        # Why there is no graph executor where one was asked for.
        self.graph_missing = ""

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
    def graph_database(self) -> FalkorServer:
        """The graph database, where one was asked for and can run."""
        return _started(self._graph_database)

    @property
    def runtimes(self) -> tuple[ServiceProcess, ...]:
        """The replicas of the runtime."""
        return tuple(self.service(replica_name(number)) for number in range(1, self.options.runtime_replicas + 1))

    @property
    def http_apis(self) -> tuple[ServiceProcess, ...]:
        """The replicas of the HTTP API; none unless they were asked for."""
        return tuple(self.service(numbered(HTTP_API, number)) for number in range(1, self.options.http_replicas + 1))

    @property
    def services(self) -> tuple[ServiceProcess, ...]:
        """Every process, in the order in which callers depend on them."""
        return tuple(self._services.values())

    @property
    def kept(self) -> tuple[ServiceProcess | FalkorServer, ...]:
        """What is to run until the platform stops: every service, and the graph database, where there is one."""
        return (*self.services, *([self._graph_database] if self._graph_database else []))

    def service(self, name: str) -> ServiceProcess:
        """A service by name; further replicas of the runtime are `runtime-2`, `runtime-3` and on."""
        try:
            return self._services[name]
        except KeyError:
            raise KeyError(f"no service {name!r} here; there are: {', '.join(self._services)}") from None

    def logs(self, name: str) -> str:
        """Everything a service wrote so far."""
        return self.service(name).logs()

    def token(self, subject: str, roles: Iterable[str] = (), claims: Mapping[str, str] = MappingProxyType({})) -> str:
        """A caller's token that the gateway accepts."""
        return mint_issuer_token(
            self.keys.signing_key,
            subject=subject,
            roles=roles,
            issuer=DEVELOPMENT_ISSUER,
            audience=DEVELOPMENT_AUDIENCE,
            claims=claims,
        )

    async def _start(self) -> None:
        # Other code than ours, of another release, has no such server.
        if self._forks is None and "PYTHONPATH" not in self.options.base_env:
            self._forks = self._resources.enter_context(ForkServer(self.options.base_env))
        self._directory = self._resources.enter_context(_work_directory(self.options.directory))
        self._keys = DevelopmentKeys.create(self._directory)
        topology = Topology(self.options, self._keys)
        # Entered in this order, so that services stop before the databases they use, however far the start came.
        databases = await self._resources.enter_async_context(AsyncExitStack())
        self._resources.push_async_callback(self._stop)
        (self._databases, graph), backends = await together(
            self._start_databases(topology, databases), self._start_backends(topology)
        )
        if graph and self.options.graph_policy:
            executor = await self._process(topology.graph_executor(graph, self.options.graph_policy)).start()
            backends = replace(backends, graph_executor=executor.listen)
        await self._start_rest(topology, self._databases, backends)

    async def _start_databases(self, topology: Topology, resources: AsyncExitStack) -> tuple[Databases, str]:
        """The databases, and the URL of the graph database; that is empty where there is none."""
        # First: it claims the data directory, or refuses one that holds something else, before the other writes there.
        cluster = await resources.enter_async_context(find_cluster(self.options, self._report))
        graph = await resources.enter_async_context(self._started_graph_database())
        databases, _ = await together(
            resources.enter_async_context(
                prepare_databases_in(cluster, self.options, topology, self.directory, self._report, forks=self._forks)
            ),
            self._load_graph(topology, graph),
        )
        return databases, graph

    @asynccontextmanager
    async def _started_graph_database(self) -> AsyncIterator[str]:
        """The URL of a graph database; empty where none is wanted, or none can run."""
        if self.options.graph_policy is None:
            yield ""
        elif missing := missing_for_falkordb():
            self.graph_missing = missing
            self._report(f"going without the graph executor: {missing}")
            yield ""
        else:
            self._report("starting the graph database")
            server = FalkorServer((self.options.data_dir or self.directory) / GRAPH_DIRECTORY)
            await server.start()
            self._graph_database = server
            try:
                yield server.url
            finally:
                await server.stop()

    async def _load_graph(self, topology: Topology, url: str) -> None:
        """Makes the demo world's services in the graphs of its people, where it is their policy that holds."""
        if not url or self.options.graph_policy != WORLD_GRAPH_POLICY:
            return
        graphs = [graph_of(subject) for subject in WORLD_SUBJECTS]
        program = topology.step("load-graph", ["examples.harbour.incidents.graph", *graphs], {GRAPH_URL_VARIABLE: url})
        await run_to_end(program, self.directory, timeout_s=STEP_TIMEOUT_S, forks=self._forks)

    async def _start_backends(self, topology: Topology) -> _Backends:
        model, user_database = self.options.model, self.options.user_database
        if model is None:
            self._report("starting the offline model")
            program = topology.offline_model(user_database.vocabulary if user_database else WORLD_VOCABULARY)
            model = offline_endpoint((await self._process(program).start()).listen, self.options.models)
        policy = user_database.sql_policy if user_database else WORLD_POLICY
        wanted = [topology.guard(model, restricted_tables(policy), owner_columns(policy))]
        if self.options.code_agents:
            wanted += [topology.code_executor(self.directory / CODE_CACHE), topology.evaluator(model)]
        if self.options.mcp_servers:
            wanted.append(topology.mcp_executor(self.options.mcp_servers))
        started = await together(*(self._process(program).start() for program in wanted))
        addresses = {program.name: ready.listen for program, ready in zip(wanted, started, strict=True)}
        return _Backends(model, **addresses)

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
                    graph_executor=backends.graph_executor,
                    mcp_executor=backends.mcp_executor,
                )
            )
            for number in range(1, self.options.runtime_replicas + 1)
        ]
        await together(*(replica.start() for replica in replicas))
        runtimes, batches = [replica.ready.listen for replica in replicas], ""
        if self.options.batches:
            batches = (await self._process(topology.batches(databases.platform_dsn, runtimes)).start()).listen
        gateway = await self._process(topology.gateway(runtimes, batches)).start()
        for number in range(1, self.options.http_replicas + 1):
            await self._process(topology.http_api(number, gateway.listen)).start()

    def _process(self, program: Program) -> ServiceProcess:
        process = ServiceProcess(
            program, self.directory, ready_timeout_s=self.options.ready_timeout_s, forks=self._forks
        )
        self._services[program.name] = process
        return process

    async def _stop(self) -> None:
        replicas = {replica_name(number) for number in range(1, self.options.runtime_replicas + 1)}
        doors = {GATEWAY, *(numbered(HTTP_API, number) for number in range(1, self.options.http_replicas + 1))}
        called = [process for name, process in self._services.items() if name not in {*replicas, BATCHES, *doors}]
        runtimes = [process for name, process in self._services.items() if name in replicas]
        batches = [process for name, process in self._services.items() if name == BATCHES]
        gateways = [process for name, process in self._services.items() if name in doors]
        await stop_all([called, runtimes, batches, gateways], grace_s=self.options.shutdown_grace_s + 5)


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
