"""Composition root of the SQL executor."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.postgres import connect, make_pool
from services.kit.telemetry.names import AUDIENCE_SQL_EXECUTOR
from services.kit.telemetry.pool_metrics import shown
from services.kit.text.policy_file import PolicyFileError
from services.kit.tools.executor import SERVICE_NAME, ReadingToolExecutor, ServedTool, ToolRefused
from services.kit.wire.needs import needed, needed_text
from services.kit.wire.server import Registration, Service
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.errors import DatabaseBusy, DatabaseDown, UnsafeDatabase
from services.sql_executor.examples import ExampleStore
from services.sql_executor.execution import QueryRunner
from services.sql_executor.policy import SqlPolicy, load_policy
from services.sql_executor.pool import APPLICATION_NAME, RECONNECT_S, reader_pool
from services.sql_executor.provisioning import compare
from services.sql_executor.settings import SqlExecutorSettings
from services.sql_executor.statement import Statements
from services.sql_executor.tools import ExamplesTool, QueryTool

DATABASE = "the user's database"


async def build(settings: SqlExecutorSettings, stack: AsyncExitStack) -> Service:
    """Builds the service once the database is there; exits with a message if that or the policy is wrong."""
    try:
        tools = await _tools(settings, stack)
        verifier = RunTokenVerifier(await needed_text(settings.run_token_public_key_file), AUDIENCE_SQL_EXECUTOR)
    except (PolicyFileError, UnsafeDatabase, OSError) as error:
        raise SystemExit(f"sql_executor does not start: {error}") from error
    servicer = ReadingToolExecutor(tools, verifier)
    return Service([Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)])


async def _tools(settings: SqlExecutorSettings, stack: AsyncExitStack) -> list[ServedTool]:
    policy = load_policy(settings.sql_policy)
    dsn = settings.database_dsn.get_secret_value()
    catalog = await needed(DATABASE, lambda: _checked_catalog(dsn, policy), absent=(psycopg.OperationalError,))
    pool = await stack.enter_async_context(
        reader_pool(
            dsn,
            min_size=settings.pool_min_size,
            max_size=settings.pool_max_size,
            wait_s=settings.pool_wait_s,
            per_caller=settings.queries_per_caller,
        )
    )
    signer = CallerSigner(settings.caller_secret.get_secret_value())
    runner = QueryRunner(pool, signer, policy.limits)
    stack.push_async_callback(runner.aclose)
    await needed(DATABASE, lambda: check_secret(runner), absent=(DatabaseDown, DatabaseBusy))
    statements = Statements(catalog)
    stack.callback(statements.close)
    tools: list[ServedTool] = [QueryTool(catalog, statements, runner, text_rows=settings.text_rows)]
    if settings.examples_dsn.get_secret_value():
        tools.append(ExamplesTool(await example_store(settings, stack)))
    return tools


async def _checked_catalog(dsn: str, policy: SqlPolicy) -> Catalog:
    async with await connect(dsn, APPLICATION_NAME) as connection:
        await check_database(connection, policy)
        return await read_catalog(connection, policy)


async def check_database(connection: AsyncConnection[Any], policy: SqlPolicy) -> None:
    """Checks that a connection is the reader's and the database as the policy promises. Raises UnsafeDatabase."""
    cursor = await connection.execute("SELECT session_user, current_user")
    row = await cursor.fetchone()
    if row is None or set(row) != {policy.roles.reader}:
        raise UnsafeDatabase(f"the DSN must log in as the reader role {policy.roles.reader}, not as {row and row[0]}")
    if found := await compare(connection, policy):
        problems = "".join(f"\n- {difference.problem}" for difference in found)
        raise UnsafeDatabase(f"the database is not as the policy promises; run `signalbox sql-policy apply`:{problems}")


async def check_secret(runner: QueryRunner) -> None:
    """Checks that the database believes the callers that are signed here. Raises UnsafeDatabase."""
    try:
        table = await runner.run("SELECT signalbox.caller_subject()", SqlCaller("0", is_admin=False))
    except ToolRefused as refusal:
        raise UnsafeDatabase(
            "the database does not believe the signed caller: SIGNALBOX_CALLER_SECRET is not the one that "
            "`signalbox sql-policy apply` was given"
        ) from refusal
    if table.rows != [("0",)]:
        raise UnsafeDatabase("the database took the signed caller for somebody else")


async def example_store(settings: SqlExecutorSettings, stack: AsyncExitStack) -> ExampleStore:
    """Opens the few-shot store, whose database may be away."""
    pool: AsyncConnectionPool[Any] = make_pool(
        settings.examples_dsn.get_secret_value(),
        APPLICATION_NAME,
        prepare=False,  # it is only read, a statement at a time
        min_size=0,
        max_size=settings.pool_max_size,
        timeout=settings.pool_wait_s,
        reconnect_timeout=RECONNECT_S,
        name="examples",
    )
    await stack.enter_async_context(pool)
    stack.enter_context(shown(pool))
    if not settings.embeddings_base_url:
        return ExampleStore(pool)
    from services.sql_executor.embeddings import EmbeddingsClient

    embedder = EmbeddingsClient(
        base_url=settings.embeddings_base_url,
        api_key=settings.embeddings_api_key.get_secret_value(),
        model=settings.embeddings_model,
        timeout_s=settings.embeddings_timeout_s,
    )
    stack.push_async_callback(embedder.close)
    return ExampleStore(pool, embedder)
