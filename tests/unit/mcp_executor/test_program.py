"""Whose answer a message of a program is that is too large to be read."""

from __future__ import annotations

import pytest
from mcp.types import JSONRPCRequest

from services.mcp_executor.program import _Unanswered


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"method":"x', 1),
        (b'{"id": "1", "jsonrpc": "2.0", "error": {"params": "x', 1),
        (b'{"result":{"content":[{"text":"\\"method\\": x', 1),
        (b'{"jsonrpc":"2.0","id":2,"result":{"x', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x', None),
        (b'{"method" : "roots/list", "id": 1, "result": "x', None),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"result":"x', None),
        (b'{"params":{"data":"x', None),
    ],
)
def test_only_an_answer_is_told_to_who_asked(head: bytes, asked: int | None) -> None:
    unanswered = _Unanswered()
    unanswered.sent(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call"))
    assert unanswered.begun_by(head) == asked
