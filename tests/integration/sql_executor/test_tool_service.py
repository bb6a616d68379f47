"""The tool service over gRPC: who may call, what is refused, and what happens when the database misbehaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import jwt
import psycopg
import pytest
import pytest_asyncio
from google.protobuf import json_format
from jsonschema import Draft202012Validator
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import tools_pb2

from services.kit.errors import error_detail
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.errors import DatabaseDown
from services.sql_executor.example_file import ExampleEntry
from services.sql_executor.examples import ExampleStore
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import ReaderPool, reader_pool
from tests.integration.sql_executor.conftest import ADMIN, RUN, Executor
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet, fleet_policy

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUERY = {"query": "SELECT count(*) FROM devices"}
USER = SqlCaller(str(CALLER), is_admin=False)


async def _refused(executor: Executor, token: str, **request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await executor.call(request.pop("tool", EXECUTE_DB_QUERY), QUERY, token=token, **request)
    detail = error_detail(raised.value)
    return detail.code, detail.reason


async def test_the_tools_say_what_they_take(executor: Executor) -> None:
    metadata = (("authorization", f"Bearer {executor.token()}"),)
    listed = (await executor.stub.ListTools(tools_pb2.ListToolsRequest(), metadata=metadata)).tools
    assert [tool.name for tool in listed] == [EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES]
    for tool in listed:
        assert tool.read_only
        schema = json_format.MessageToDict(tool.input_schema)
        Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False
    words = listed[0].description
    assert "devices(device_id integer" in words
    assert "degrees Celsius" in words
    for hidden in ("admin", "password_hash", "user_device_assignment", "pin"):
        assert hidden not in words


async def test_a_bad_token_is_refused(executor: Executor) -> None:
    other = Executor(executor.stub, generate_keypair())
    good = executor.token()
    head, body, signature = good.split(".")
    claims = jwt.decode(good, options={"verify_signature": False})
    unsigned = jwt.encode(claims, "", algorithm="none")
    by_secret = jwt.encode(claims, executor.keys.public_pem.encode()[:64], algorithm="HS256")
    audience = jwt.encode({**claims, "aud": "signalbox-runtime"}, executor.keys.private_pem, algorithm="EdDSA")
    flipped = signature[:10] + ("A" if signature[10] != "A" else "B") + signature[11:]
    bad = [other.token(), unsigned, by_secret, audience, f"{head}.{body}.{flipped}", f"{head}.{body}.", "x", "x" * 6000]
    for token in bad:
        assert await _refused(executor, token) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID"), token
    expired = executor.token(ttl_s=-60)
    assert await _refused(executor, expired) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED")
    key = tools_pb2.IdempotencyKey(run_id=RUN, checkpoint_id="c", tool_call_id="t")
    request = tools_pb2.CallToolRequest(tool=EXECUTE_DB_QUERY, idempotency_key=key, epoch=1)
    for metadata in ((), (("authorization", "Basic x"),)):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await executor.stub.CallTool(request, metadata=metadata)
        assert error_detail(raised.value).reason == "TOKEN_MISSING"


async def test_the_token_must_name_the_tool_the_run_and_the_epoch(executor: Executor) -> None:
    examples_only = executor.token(tools=frozenset({GET_FEW_SHOT_EXAMPLES}))
    assert await _refused(executor, examples_only) == (grpc.StatusCode.PERMISSION_DENIED, "TOOL_NOT_ALLOWED")
    assert (await _refused(executor, executor.token(run_id="run-2")))[1] == "RUN_MISMATCH"
    assert (await _refused(executor, executor.token(epoch=0)))[1] == "STALE_EPOCH"
    foreign = executor.token(tools=frozenset({"fetch_code"}))
    assert await _refused(executor, foreign, tool="fetch_code") == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_TOOL")
    nobody = executor.token(Caller("27 OR 1=1"))
    assert await _refused(executor, nobody) == (grpc.StatusCode.PERMISSION_DENIED, "CALLER_UNFIT")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": 1},
        {"query": ["SELECT 1"]},
        {"query": None},
        {"query": float("nan")},
        {"query": float("inf")},
        {**QUERY, "user_id": 31},
        {**QUERY, "caller": {"subject": "31"}},
        {**QUERY, "roles": ["admin"]},
        {"sql": "SELECT 1"},
    ],
)
async def test_arguments_that_break_the_schema_are_refused(executor: Executor, arguments: dict[str, Any]) -> None:
    response = await executor.call(EXECUTE_DB_QUERY, arguments)
    assert response.error.reason == "invalid_arguments"
    assert EXECUTE_DB_QUERY in response.error.message


async def test_an_output_says_whether_it_was_read_from_a_table(executor: Executor) -> None:
    for _ in range(2):  # also of a statement that it remembers
        assert (await executor.call(EXECUTE_DB_QUERY, QUERY)).output.reads_tables
        invented = (await executor.call(EXECUTE_DB_QUERY, {"query": "SELECT 10 AS readings"})).output
        assert (invented.HasField("reads_tables"), invented.reads_tables) == (True, False)
        assert invented.table.rows[0].values[0].int_value == 10
        mixed = {"query": "SELECT device_id, 98 AS used, count(*) FROM devices GROUP BY 1"}
        assert list((await executor.call(EXECUTE_DB_QUERY, mixed)).output.stated_columns) == ["used"]


async def test_an_unknown_role_is_no_admin_and_an_unknown_user_owns_nothing(executor: Executor) -> None:
    operator = Caller(str(CALLER), frozenset({"operator", "Admin", "admin "}))
    assert (await executor.call(EXECUTE_DB_QUERY, QUERY, operator)).output.table.rows[0].values[0].int_value == 13
    stranger = await executor.call(EXECUTE_DB_QUERY, QUERY, Caller("424242"))
    assert stranger.output.table.rows[0].values[0].int_value == 0
    admin = await executor.call(EXECUTE_DB_QUERY, QUERY, ADMIN)
    assert admin.output.table.rows[0].values[0].int_value == 121


async def _outcome(call: Awaitable[tools_pb2.CallToolResponse]) -> str:
    try:
        return (await call).error.reason
    except grpc.aio.AioRpcError as error:
        return error.code().name


async def test_a_deadline_ends_the_query_too(executor: Executor, fleet: Fleet) -> None:
    metadata = (("authorization", f"Bearer {executor.token()}"),)
    key = tools_pb2.IdempotencyKey(run_id=RUN, checkpoint_id="c", tool_call_id="t")
    request = tools_pb2.CallToolRequest(tool=EXECUTE_DB_QUERY, idempotency_key=key, epoch=1)
    request.arguments.update({"query": "SELECT count(*) FROM device_readings a, device_readings b, device_readings c"})
    call = executor.stub.CallTool(request, metadata=metadata, timeout=0.3)
    # The database is given the same deadline, and may be the one to notice it.
    assert await _outcome(call) in ("DEADLINE_EXCEEDED", "timeout")
    await _until_no_query_runs(fleet)
    assert (await executor.call(EXECUTE_DB_QUERY, QUERY)).HasField("output")


async def test_examples_come_with_notes(executor: Executor, fleet: Fleet) -> None:
    unready = await executor.call(GET_FEW_SHOT_EXAMPLES, {"question": "How warm is it?"})
    assert (unready.error.reason, unready.error.retryable) == ("examples_unavailable", True)
    async with AsyncConnectionPool(fleet.superuser_dsn, min_size=1, max_size=1, open=False) as pool:
        store = ExampleStore(pool)
        await store.setup()
        entry = ExampleEntry(question="How warm is each device?", sql="SELECT device_id, temperature FROM x")
        await store.load([entry], ["Warm means above 10 degrees."])
    found = (await executor.call(GET_FEW_SHOT_EXAMPLES, {"question": "How warm is each device?"})).output
    data = json_format.MessageToDict(found.data)
    assert [example["sql"] for example in data["examples"]] == [entry.sql]
    assert [note["text"] for note in data["notes"]] == ["Warm means above 10 degrees."]
    assert entry.sql in found.text
    refused = await executor.call(GET_FEW_SHOT_EXAMPLES, {"question": "x", "user_id": 31})
    assert refused.error.reason == "invalid_arguments"


async def _until_no_query_runs(fleet: Fleet) -> None:
    running = (
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) "
        "WHERE usename = 'signalbox_reader' AND datname = current_database() "
        "AND a.xact_start IS NOT NULL AND l.relation IS NULL"
    )
    deadline = time.monotonic() + 60
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as connection:
        while time.monotonic() < deadline:
            row = await (await connection.execute(running)).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(0.05)
    raise AssertionError("a query still runs after its caller has left")


@pytest_asyncio.fixture(loop_scope="module")
async def pool(fleet: Fleet) -> AsyncIterator[ReaderPool]:
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as opened:
        yield opened


async def test_a_cancelled_call_cancels_its_query(fleet: Fleet, pool: ReaderPool) -> None:
    runner = QueryRunner(pool, CallerSigner(SECRET), fleet_policy(statement_timeout_ms=60_000).limits)
    slow = asyncio.create_task(runner.run("SELECT pg_sleep(60)", USER))
    await _until_it_sleeps(fleet)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert (await runner.run("SELECT count(*) FROM devices", USER)).rows == [("13",)]
    await runner.aclose()


async def _until_it_sleeps(fleet: Fleet) -> int:
    """Waits until a query of the reader sleeps; returns its process id."""
    asleep = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE usename = 'signalbox_reader' AND datname = current_database() AND wait_event = 'PgSleep'"
    )
    deadline = time.monotonic() + 60
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as superuser:
        while time.monotonic() < deadline:
            if row := await (await superuser.execute(asleep)).fetchone():
                return int(row[0])
            await asyncio.sleep(0.01)
    raise AssertionError("no query began to sleep")


async def test_a_lost_connection_is_said_so_and_replaced(fleet: Fleet, pool: ReaderPool) -> None:
    limits = fleet_policy(statement_timeout_ms=600_000).limits
    runner = QueryRunner(pool, CallerSigner(SECRET), limits)
    slow = asyncio.create_task(runner.run("SELECT pg_sleep(600)", USER))
    pid = await _until_it_sleeps(fleet)
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as superuser:
        await superuser.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(DatabaseDown):
        await slow
    assert (await runner.run("SELECT 1", USER)).rows == [("1",)]
