"""A provisioned harbour world, and the executor on top of it, once per module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import pytest_asyncio
import yaml
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_SQL_EXECUTOR
from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.kit.wire.server import running
from services.sql_executor.server import build
from services.sql_executor.settings import SqlExecutorSettings
from tests.fixtures.postgres import PostgresCluster, TemplateDatabase
from tests.integration.sql_executor.fleet import CALLER, POLICY_FILE, SECRET, Fleet, fleet_policy, prepare, provisioned

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

RUN = "run-1"
USER = Caller(str(CALLER))
ADMIN = Caller("ops", frozenset({"admin"}))


@dataclass(frozen=True)
class Executor:
    """The executor as a run sees it."""

    stub: ToolExecutorServiceAsyncStub
    keys: KeyPair

    def token(self, caller: Caller = USER, *, ttl_s: int = 600, **claims: Any) -> str:
        """Returns a run token."""
        tools = frozenset({EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES})
        defaults = {"caller": caller, "run_id": RUN, "agent": "data_chat", "tools": tools, "epoch": 1}
        return RunTokenMinter(self.keys.private_pem, ttl_s=ttl_s).mint(
            RunClaims(**{**defaults, **claims}), AUDIENCE_SQL_EXECUTOR
        )

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller = USER, *, token: str | None = None, **request: Any
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool for a caller."""
        key = tools_pb2.IdempotencyKey(run_id=RUN, checkpoint_id="checkpoint-1", tool_call_id="call-1")
        message = tools_pb2.CallToolRequest(**{"tool": tool, "idempotency_key": key, "epoch": 1, **request})
        message.arguments.update(arguments)
        metadata = (bearer_metadata(token or self.token(caller)),)
        return await self.stub.CallTool(message, metadata=metadata, timeout=120)

    async def query(self, sql: str, caller: Caller = USER) -> tools_pb2.CallToolResponse:
        """Runs a query for a caller."""
        return await self.call(EXECUTE_DB_QUERY, {"query": sql}, caller)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet_database(postgres_cluster: PostgresCluster) -> AsyncIterator[str]:
    """The marked harbour world, for a module."""
    name = postgres_cluster.create_database(await postgres_cluster.template("fleet", prepare))
    yield postgres_cluster.dsn(name)
    postgres_cluster.drop_database(name)


@pytest.fixture
async def unprovisioned(template_database: TemplateDatabase) -> str:
    """The marked harbour world, for a test."""
    return await template_database("fleet", prepare)


@pytest.fixture(scope="module")
def statement_timeout_ms() -> int:
    """How long a query may take; modules with queries that never end override it."""
    return 20_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(fleet_database: str, statement_timeout_ms: int) -> Fleet:
    """The marked harbour world, provisioned."""
    return await provisioned(fleet_database, fleet_policy(statement_timeout_ms=statement_timeout_ms))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(
    fleet: Fleet, statement_timeout_ms: int, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Executor]:
    """The executor over gRPC, with one or two connections so that callers share them."""
    directory: Path = tmp_path_factory.mktemp("sql_executor")
    keys = generate_keypair()
    (directory / "key.pem").write_text(keys.public_pem)
    policy = yaml.safe_load(POLICY_FILE.read_text())
    policy["limits"]["statement_timeout_ms"] = statement_timeout_ms
    (directory / "policy.yaml").write_text(yaml.safe_dump(policy))
    settings = SqlExecutorSettings(
        database_dsn=fleet.reader_dsn,
        sql_policy=directory / "policy.yaml",
        caller_secret=SECRET,
        run_token_public_key_file=directory / "key.pem",
        pool_min_size=1,
        pool_max_size=2,
        pool_wait_s=60,
        examples_dsn=fleet.superuser_dsn,
        shutdown_grace_s=1,
    )
    async with (
        running("sql_executor", settings, build) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        yield Executor(tools_pb2_grpc.ToolExecutorServiceStub(channel), keys)
