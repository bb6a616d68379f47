"""Composition root of the SQL executor."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity import RunTokenVerifier
from services.kit.server import Registration, Service
from services.kit.tool_executor import SERVICE_NAME, ReadingToolExecutor, ServedTool, ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.embeddings import EmbeddingsClient
from services.sql_executor.errors import PolicyFileError, UnsafeDatabase
from services.sql_executor.examples import ExampleStore
from services.sql_executor.execution import QueryRunner, reader_pool
from services.sql_executor.policy import SqlPolicy, load_policy
from services.sql_executor.provisioning import compare
from services.sql_executor.settings import SqlExecutorSettings
from services.sql_executor.tools import ExamplesTool, QueryTool

_START_TIMEOUT_S = 15


async def build(settings: SqlExecutorSettings, stack: AsyncExitStack) -> Service:
    """Build the service; exits with a message when the policy file or the database is not what it must be."""
    try:
        tools = await _tools(settings, stack)
        verifier = RunTokenVerifier(settings.run_token_public_key_file.read_text(encoding="ascii"))
    except (PolicyFileError, UnsafeDatabase, OSError, psycopg.OperationalError) as error:
        raise SystemExit(f"sql_executor does not start: {error}") from error
    servicer = ReadingToolExecutor(tools, verifier)
    return Service([Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)])


async def _tools(settings: SqlExecutorSettings, stack: AsyncExitStack) -> list[ServedTool]:
    policy = load_policy(settings.sql_policy)
    dsn = settings.database_dsn.get_secret_value()
    catalog = await _checked_catalog(dsn, policy)
    pool = await stack.enter_async_context(
        reader_pool(dsn, min_size=settings.pool_min_size, max_size=settings.pool_max_size)
    )
    signer = CallerSigner(settings.caller_secret.get_secret_value())
    runner = QueryRunner(pool, signer, policy.limits, pool_wait_s=settings.pool_wait_s)
    stack.push_async_callback(runner.aclose)
    await check_secret(runner)
    tools: list[ServedTool] = [QueryTool(catalog, runner, text_rows=settings.text_rows)]
    if settings.examples_dsn.get_secret_value():
        tools.append(ExamplesTool(await _example_store(settings, stack)))
    return tools


async def _checked_catalog(dsn: str, policy: SqlPolicy) -> Catalog:
    async with await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=_START_TIMEOUT_S) as connection:
        await check_database(connection, policy)
        return await read_catalog(connection, policy)


async def check_database(connection: AsyncConnection[Any], policy: SqlPolicy) -> None:
    """Check that a connection is the reader's and the database as the policy promises. Raises UnsafeDatabase."""
    cursor = await connection.execute("SELECT session_user, current_user")
    row = await cursor.fetchone()
    if row is None or set(row) != {policy.roles.reader}:
        raise UnsafeDatabase(f"the DSN must log in as the reader role {policy.roles.reader}, not as {row and row[0]}")
    if found := await compare(connection, policy):
        problems = "".join(f"\n- {difference.problem}" for difference in found)
        raise UnsafeDatabase(f"the database is not as the policy promises; run `signalbox sql-policy apply`:{problems}")


async def check_secret(runner: QueryRunner) -> None:
    """Check that the database believes the callers that are signed here. Raises UnsafeDatabase."""
    try:
        table = await runner.run("SELECT signalbox.caller_subject()", SqlCaller("0", is_admin=False))
    except ToolRefused as refusal:
        raise UnsafeDatabase(
            "the database does not believe the signed caller: SIGNALBOX_CALLER_SECRET is not the one that "
            "`signalbox sql-policy apply` was given"
        ) from refusal
    if table.rows != [("0",)]:
        raise UnsafeDatabase("the database took the signed caller for somebody else")


async def _example_store(settings: SqlExecutorSettings, stack: AsyncExitStack) -> ExampleStore:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        settings.examples_dsn.get_secret_value(),
        kwargs={"autocommit": True},  # it is only read, a statement at a time
        min_size=0,
        max_size=settings.pool_max_size,
        timeout=settings.pool_wait_s,
        open=False,
        name="examples",
    )
    await stack.enter_async_context(pool)
    if not settings.embeddings_base_url:
        return ExampleStore(pool)
    embedder = EmbeddingsClient(
        base_url=settings.embeddings_base_url,
        api_key=settings.embeddings_api_key.get_secret_value(),
        model=settings.embeddings_model,
        timeout_s=settings.embeddings_timeout_s,
    )
    stack.push_async_callback(embedder.close)
    return ExampleStore(pool, embedder)
