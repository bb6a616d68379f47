"""Who calls, and for whom: a caller, what a run token says, and why a call is refused for it.

SignalboxError
├── Unauthenticated: TokenMissing, TokenInvalid (KeyUnknown), TokenExpired
├── ClocksApart
├── StaleEpoch
├── ToolNotAllowed
└── WritesNotAllowed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from services.kit.errors import SignalboxError


class Unauthenticated(SignalboxError):
    """A call whose caller is not known."""

    reason = "UNAUTHENTICATED"
    code = grpc.StatusCode.UNAUTHENTICATED


class TokenMissing(Unauthenticated):
    """No bearer token came with the call."""

    reason = "TOKEN_MISSING"


class TokenInvalid(Unauthenticated):
    """The token is malformed, signed by another key, or meant for somebody else."""

    reason = "TOKEN_INVALID"


class KeyUnknown(TokenInvalid):
    """The token names a key that is not known, or not yet; to its caller as invalid as any other."""


class TokenExpired(Unauthenticated):
    """The token was good once."""

    reason = "TOKEN_EXPIRED"


class ClocksApart(SignalboxError):
    """A service of the platform issued the token in this service's future: one of the two clocks is off."""

    reason = "CLOCKS_APART"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class StaleEpoch(SignalboxError):
    """The call's epoch is outdated: another replica has claimed the run."""

    reason = "STALE_EPOCH"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ToolNotAllowed(SignalboxError):
    """The run token does not name the tool."""

    reason = "TOOL_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


class WritesNotAllowed(SignalboxError):
    """The run token is not for tools that write."""

    reason = "WRITES_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


@dataclass(frozen=True)
class Caller:
    """Who a run acts for; `claims` are further words of their token that are passed on, by name."""

    subject: str
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RunClaims:
    """What a run token says: the caller, the run, its claim's epoch and the tools it may call.

    `writes` is said to nodes that act alone: without it, tools that write refuse the call.
    """

    caller: Caller
    run_id: str
    agent: str
    tools: frozenset[str]
    epoch: int
    writes: bool = False


def authorize_writing(claims: RunClaims, tool: str) -> None:
    """Checks that a run token is for a node that acts. Raises WritesNotAllowed."""
    if not claims.writes:
        raise WritesNotAllowed(f"the tool {tool!r} writes, and this token is for reading", metadata={"tool": tool})


def authorize_tool(claims: RunClaims, tool: str) -> None:
    """Checks that a run may call a tool. Raises ToolNotAllowed."""
    if tool not in claims.tools:
        raise ToolNotAllowed(f"this run may not call the tool {tool!r}", metadata={"tool": tool})
