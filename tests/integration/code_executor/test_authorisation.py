"""Who may call, and what every call must carry."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from signalbox.v1 import tools_pb2

from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_CODE_EXECUTOR
from tests.integration.code_executor.conftest import RUN, TOOLS, Executor
from tests.integration.code_executor.git_repository import GitRepository

KEY = {"run_id": RUN, "checkpoint_id": "checkpoint-1", "tool_call_id": "call-1"}


async def refused(executor: Executor, tool: str = "list_directory", **call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await executor.call_raw(tool, {}, **call)
    detail = error_detail(error.value)
    return detail.code, detail.reason


async def test_a_call_without_a_token_is_refused(executor: Executor) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await executor.stub.CallTool(tools_pb2.CallToolRequest(tool="read_file"))
    assert error_detail(error.value).reason == "TOKEN_MISSING"
    with pytest.raises(grpc.aio.AioRpcError):
        await executor.stub.ListTools(tools_pb2.ListToolsRequest())


async def test_tokens_that_are_not_good_are_refused(executor: Executor) -> None:
    claims = RunClaims(Caller("27"), RUN, "a", TOOLS, 1)
    other = RunTokenMinter(generate_keypair().private_pem).mint(claims, AUDIENCE_CODE_EXECUTOR)
    good = executor.token()
    unauthenticated = grpc.StatusCode.UNAUTHENTICATED
    assert await refused(executor, token=other) == (unauthenticated, "TOKEN_INVALID")
    assert await refused(executor, token=good[:-6] + "AAAAAA") == (unauthenticated, "TOKEN_INVALID")
    assert await refused(executor, token=executor.token(ttl_s=-60)) == (unauthenticated, "TOKEN_EXPIRED")


async def test_a_tool_that_the_token_does_not_name_is_refused(executor: Executor) -> None:
    token = executor.token(tools=frozenset({"read_file"}))
    assert await refused(executor, "find_file", token=token) == (grpc.StatusCode.PERMISSION_DENIED, "TOOL_NOT_ALLOWED")


async def test_a_tool_that_is_not_served_here_is_refused(executor: Executor) -> None:
    token = executor.token(tools=frozenset({"send_email"}))
    assert await refused(executor, "send_email", token=token) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_TOOL")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"epoch": 2}, (grpc.StatusCode.FAILED_PRECONDITION, "STALE_EPOCH")),
        ({"epoch": 0}, (grpc.StatusCode.FAILED_PRECONDITION, "STALE_EPOCH")),
        ({"idempotency_key": {**KEY, "run_id": "run-2"}}, (grpc.StatusCode.PERMISSION_DENIED, "RUN_MISMATCH")),
        ({"idempotency_key": {**KEY, "tool_call_id": ""}}, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CALL")),
        ({"idempotency_key": {**KEY, "tool_call_id": "x" * 257}}, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CALL")),
        ({"idempotency_key": {}}, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CALL")),
    ],
)
async def test_run_and_epoch_must_be_the_tokens(
    executor: Executor, call: dict[str, Any], expected: tuple[grpc.StatusCode, str]
) -> None:
    assert await refused(executor, **call) == expected


async def test_tools_are_listed_with_their_schemas(executor: Executor) -> None:
    listed = await executor.stub.ListTools(tools_pb2.ListToolsRequest(), metadata=(bearer_metadata(executor.token()),))
    assert [tool.name for tool in listed.tools] == sorted(TOOLS)
    for tool in listed.tools:
        schema = json_format.MessageToDict(tool.input_schema)
        assert tool.read_only
        assert schema["properties"]["source"]["x-signalbox-injected"] is True
        assert "source" in schema["required"]


async def test_a_repeated_call_gets_the_same_answer(executor: Executor, repository: GitRepository) -> None:
    commit = repository.commit({"a.py": "def a(): return a()\n"})
    first, second = [await executor.call("fetch_code", repository, commit, symbol="a") for _ in range(2)]
    assert first == second


async def test_a_call_without_a_source_says_so(executor: Executor) -> None:
    response = await executor.call_raw("read_file", {"path": "a.py"})
    assert response.error.reason == "source_invalid"
