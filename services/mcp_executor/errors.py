"""What models are told of, and what runs wait for; the rest of that is in services/kit/tools/executor.py.

ToolRefused              becomes a ToolError: the reason is lower snake case, the message says what to do instead
├── NotMade
│   ├── ToolChanged      tool_changed, tool_gone: the server offers another tool than was accepted
│   └── GrantMissing     grant_missing: the caller has not let the platform act for them there
├── CallFailed           tool_failed, invalid_arguments, asks_back, access_refused: what the server says or wants
│   └── AnswerNotRead    tool_failed: it answered more than is read
└── OutcomeUnknown       outcome_unknown: it may have been done, and nothing can tell

SignalboxError           becomes a gRPC status: no model is told, and the run waits for the server that it names
├── ServerAway           UNAVAILABLE: the server, or the issuer of its tokens, can't be reached or answers no sense
└── ServerBusy           RESOURCE_EXHAUSTED: as many calls of it are under way as may be
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError
from services.kit.tools.executor import BEHIND, ToolRefused


class NotMade(ToolRefused):
    """The call has not been made: the same may be, later."""


class ToolChanged(NotMade):
    """The server offers another tool by that name than was accepted, or none."""


class CallFailed(ToolRefused):
    """The server refused the call, or it failed there."""


class AnswerNotRead(CallFailed):
    """The server answered more than is read."""

    def __init__(self, told: str) -> None:
        super().__init__(
            "tool_failed", f"No result: {told}. What was asked for may have been done; ask for less where you can."
        )


class OutcomeUnknown(ToolRefused):
    """A call that writes got no answer, and its repetition might write again."""

    def __init__(self, server: str) -> None:
        super().__init__(
            "outcome_unknown",
            f"The server {server} did not answer. What was asked for may have been done: look before you ask again.",
        )


class GrantMissing(NotMade):
    """The issuer gives no token for this caller at this server."""

    def __init__(self, message: str) -> None:
        super().__init__("grant_missing", message)


class _BehindIt(SignalboxError):
    """A server's failure, and none of the executor's: calls of other servers are not held back by it."""

    def __init__(self, server: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message, metadata={BEHIND: f"MCP server {server}"}, retry_after_s=retry_after_s)


class ServerAway(_BehindIt):
    """The server can't be reached, or what it says is no answer; this says nothing about the call."""

    reason = "MCP_SERVER_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ServerBusy(_BehindIt):
    """As many calls of the server are under way as it may have."""

    reason = "MCP_SERVER_BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True
