"""The databases of a local platform: the platform's own and the user's, made, filled and dropped again."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from services.local.concurrency import together
from services.local.fork_server import ForkServer
from services.local.postgres import EmbeddedPostgres
from services.local.processes import run_to_end
from services.local.settings import DSN_VARIABLE
from services.local.topology import StackOptions, Topology, UserDatabase

STEP_TIMEOUT_S = 180.0
MIGRATION = "services.runtime.commands.migrate"
PLATFORM_DATABASE = "signalbox"
WORLD_DATABASE = "harbour"
WORLD_POLICY = Path(__file__).parents[2] / "examples" / "harbour" / "sql_policy.yaml"
WORLD_GRAPH_POLICY = WORLD_POLICY.with_name("graph_policy.yaml")
# Whose graphs know the services of the world: an admin, and two people.
WORLD_SUBJECTS = ("1", "27", "31")
WORLD_EXAMPLES = WORLD_POLICY.with_name("examples.yaml")
WORLD_VOCABULARY = WORLD_POLICY.with_name("vocabulary.yaml")
READER_ROLE = "signalbox_reader"  # the policy's default
EXAMPLES_ROLE = "signalbox_examples_reader"

# libpq's own variables: a password in the arguments of a program would be there for all to read.
_LIBPQ = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}


@dataclass(frozen=True)
class Databases:
    """Where the databases are, and their server when it is ours.

    `world_dsn` is the owner's way into the demo world; empty when there is none.
    """

    platform_dsn: str = field(repr=False)
    world_dsn: str = field(repr=False)
    user_database: UserDatabase
    server: EmbeddedPostgres | None = None


@asynccontextmanager
async def prepare_databases(
    options: StackOptions,
    topology: Topology,
    directory: Path,
    report: Callable[[str], None],
    *,
    forks: ForkServer | None = None,
) -> AsyncIterator[Databases]:
    """Finds where databases can be made, and prepares them there."""
    async with (
        find_cluster(options, report) as cluster,
        prepare_databases_in(cluster, options, topology, directory, report, forks=forks) as databases,
    ):
        yield databases


@asynccontextmanager
async def prepare_databases_in(
    cluster: Cluster,
    options: StackOptions,
    topology: Topology,
    directory: Path,
    report: Callable[[str], None],
    *,
    forks: ForkServer | None = None,
) -> AsyncIterator[Databases]:
    """Makes what the options leave open, brings both databases up to date, and drops at the end what was made here."""
    async with AsyncExitStack() as made:
        platform_dsn = options.platform_dsn or await made.enter_async_context(cluster.database(PLATFORM_DATABASE))
        steps = _Steps(topology, directory, forks)
        report("preparing the databases")
        if options.user_database is not None:
            await steps.migrate(platform_dsn)
            yield Databases(platform_dsn, "", options.user_database, cluster.server)
            return
        world_dsn = await made.enter_async_context(cluster.database(WORLD_DATABASE))
        _, user_database = await together(steps.migrate(platform_dsn), steps.prepare_world(world_dsn))
        yield Databases(platform_dsn, world_dsn, user_database, cluster.server)


@asynccontextmanager
async def find_cluster(options: StackOptions, report: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """Finds where databases can be made, or starts a server for them. Raises PostgresStartError."""
    if options.postgres_dsn:
        yield Cluster(options.postgres_dsn, suffix=f"_{secrets.token_hex(4)}", keep=False)
    elif options.platform_dsn and options.user_database is not None:
        yield Cluster("", suffix="", keep=True)
    else:
        report("starting Postgres")
        # Files that go at the end need to outlive the server's own end, and not the machine's.
        kept = options.data_dir is not None
        settings = {"synchronous_commit": "on"}
        async with EmbeddedPostgres(data_dir=options.data_dir, durable=kept, settings=settings, restart=True) as server:
            # What it does not keep goes with its files.
            yield Cluster(server.dsn(), suffix="", keep=True, server=server)


@dataclass(frozen=True)
class Cluster:
    """Where databases are made: a superuser's URL, what their names end in, whether they stay, and a server of ours."""

    dsn: str
    suffix: str
    keep: bool
    server: EmbeddedPostgres | None = None

    @asynccontextmanager
    async def database(self, name: str) -> AsyncIterator[str]:
        """Makes a database, if there is none, and yields its URL; unless it is to stay, drops it with its sessions."""
        name += self.suffix
        async with self._connect() as connection:
            found = await connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,))
            if await found.fetchone() is None:  # a row without columns is there, and false
                await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield with_database(self.dsn, name)
        finally:
            if not self.keep:
                async with self._connect() as connection:
                    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                    await connection.execute(statement.format(sql.Identifier(name)))

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            yield connection


def with_database(url: str, name: str) -> str:
    """The URL of another database of the same cluster."""
    return urlsplit(url)._replace(path=f"/{quote(name, safe='')}").geturl()


def with_user(url: str, user: str, password: str) -> str:
    """The same database's URL for another user."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}").geturl()


def without_password(url: str, options: str = "") -> str:
    """A database's URL to show: without its password, which `options` may say where to find."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    shown = [each for each in parts.query.split("&") if "password" not in each.partition("=")[0]]
    query = "&".join(filter(None, (*shown, options)))
    return parts._replace(netloc=user.partition(":")[0] + at + place, query=query).geturl()


def write_passwords(file: Path, urls: Iterable[str]) -> None:
    """Writes the passwords of databases' URLs as libpq reads them, for nobody else to see."""
    file.touch(mode=0o600)
    parts = [conninfo_to_dict(url) for url in urls]
    lines = {":".join(str(each[key]) for key in ("host", "port", "dbname", "user", "password")) for each in parts}
    file.write_text("".join(f"{line}\n" for line in sorted(lines)))


def libpq_environment(dsn: str) -> dict[str, str]:
    """A DSN as libpq's environment variables."""
    parts = conninfo_to_dict(dsn)
    return {variable: str(parts[key]) for key, variable in _LIBPQ.items() if parts.get(key)}


class _Steps:
    """The programs that prepare databases, each the one that an operator would run too."""

    def __init__(self, topology: Topology, directory: Path, forks: ForkServer | None) -> None:
        self._topology = topology
        self._directory = directory
        self._forks = forks

    async def migrate(self, dsn: str) -> None:
        await self._run("migrate", [MIGRATION], self._topology.migration_env(dsn))

    async def prepare_world(self, dsn: str) -> UserDatabase:
        """Loads the demo world and its examples, and opens it to the reader by the policy."""
        await self._run("load-world", ["examples.harbour.load"], libpq_environment(dsn))
        examples_dsn = await self._load_examples(dsn)
        secret, password = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        # Last, because it also checks what is there by then.
        await self._run(
            "sql-policy",
            ["services.sql_executor.provisioning", "apply", "--policy", str(WORLD_POLICY)],
            {"SIGNALBOX_CALLER_SECRET": secret, "SIGNALBOX_READER_PASSWORD": password},
            dsn=dsn,
        )
        reader_dsn = with_user(dsn, READER_ROLE, password)
        return UserDatabase(reader_dsn, WORLD_POLICY, secret, examples_dsn, WORLD_VOCABULARY)

    async def _load_examples(self, dsn: str) -> str:
        password = secrets.token_urlsafe(24)
        await self._run(
            "load-examples",
            ["services.sql_executor.load_examples", "--file", str(WORLD_EXAMPLES), "--reader", EXAMPLES_ROLE],
            {"SIGNALBOX_READER_PASSWORD": password},
            dsn=dsn,
        )
        return with_user(dsn, EXAMPLES_ROLE, password)

    async def _run(self, name: str, arguments: list[str], env: Mapping[str, str], *, dsn: str = "") -> None:
        if dsn:
            arguments, env = [*arguments, "--dsn-env", DSN_VARIABLE], {**env, DSN_VARIABLE: dsn}
        program = self._topology.step(name, arguments, env)
        await run_to_end(program, self._directory, timeout_s=STEP_TIMEOUT_S, forks=self._forks)
