"""What the model is told of, and what the platform waits for; the rest of that is in services/kit/tools/executor.py.

ToolRefused                  becomes a ToolError: the reason is lower snake case, the message says what to do instead
├── ArgumentRefused          invalid_arguments, invalid_pattern, invalid_glob
├── SourceRefused            source_not_allowed, source_invalid, commit_invalid
├── SourceFailed             commit_not_found, repository_too_large, repository_unavailable, …; search_failed: try again
│   └── RepositoryBroken     repository_unreadable
├── PathRefused              path_* : the path is outside, hidden, unknown, or not a file
└── ContentRefused           binary_file, encoding_not_shown, file_too_large, symbol_not_found, …

SignalboxError               becomes a gRPC status: no model is told, and the run waits
├── SourceAway               UNAVAILABLE: the repository's server can't be reached
└── CacheBusy                RESOURCE_EXHAUSTED: there is no room for the repository, or another process is at it
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError
from services.kit.tools.executor import ToolRefused


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


class SourceAway(SignalboxError):
    """The repository's server can't be reached, or closed the connection; this says nothing about the repository."""

    reason = "REPOSITORY_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class CacheBusy(SignalboxError):
    """The cache has no room for the repository at the moment, or another process is fetching it."""

    reason = "CACHE_BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True
