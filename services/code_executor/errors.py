"""What can go wrong, in two trees: what the model is told, and what the platform is told.

ToolRefused                  becomes a ToolError: the reason is lower snake case, the message says what to do instead
├── ArgumentRefused          invalid_arguments, invalid_pattern, invalid_glob
├── SourceRefused            source_not_allowed, source_invalid, commit_invalid
├── SourceFailed             commit_not_found, repository_too_large, repository_unavailable (a retry may help), …
│   └── RepositoryBroken     repository_unreadable
├── PathRefused              path_* : the path is outside, hidden, unknown, or not a file
└── ContentRefused           binary_file, file_too_large, symbol_not_found, …

SignalboxError               becomes a gRPC status
├── UnknownTool              NOT_FOUND
├── RunMismatch              PERMISSION_DENIED
├── StaleEpoch               FAILED_PRECONDITION
└── InvalidCall              INVALID_ARGUMENT
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class ToolRefused(Exception):
    """A call that the model can be told about: why it gave nothing, and what to do instead."""

    def __init__(self, reason: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retryable = retryable


class ArgumentRefused(ToolRefused):
    """The arguments do not fit the tool."""


class SourceRefused(ToolRefused):
    """The repository or commit may not be asked for, or is not named properly."""


class SourceFailed(ToolRefused):
    """The commit could not be had."""


class RepositoryBroken(SourceFailed):
    """What was fetched cannot be read; it must be fetched anew."""


class PathRefused(ToolRefused):
    """The path leads out of the repository, or to nothing that can be read."""


class ContentRefused(ToolRefused):
    """What is there cannot be shown as text, or does not hold what was asked for."""


class UnknownTool(SignalboxError):
    """No tool of that name is served here."""

    reason = "UNKNOWN_TOOL"
    code = grpc.StatusCode.NOT_FOUND


class RunMismatch(SignalboxError):
    """The call names another run than its token."""

    reason = "RUN_MISMATCH"
    code = grpc.StatusCode.PERMISSION_DENIED


class StaleEpoch(SignalboxError):
    """The call's epoch is not its token's: another replica has claimed the run."""

    reason = "STALE_EPOCH"
    code = grpc.StatusCode.FAILED_PRECONDITION


class InvalidCall(SignalboxError):
    """The request lacks what every call needs."""

    reason = "INVALID_CALL"
    code = grpc.StatusCode.INVALID_ARGUMENT
