"""What the graph executor refuses, and how it fails.

Exception
├── PolicyFileError          (services/kit/text/policy_file.py) the policy file is wrong: the service does not start
├── Overtaken                (services/kit/tools/effects.py) what was read has changed: the call begins again
├── ToolRefused              (services/kit/tools/executor.py) a refusal that the model is told of
└── SignalboxError           the call itself fails: a gRPC status
    ├── GraphUnnamed         PERMISSION_DENIED: the caller's token does not name a graph
    ├── GraphForbidden       FAILED_PRECONDITION: the graph database does not let the executor's user do that
    ├── GraphUnfit           FAILED_PRECONDITION: others have filled the graph, without the keys that the tools need
    ├── GraphMissing         FAILED_PRECONDITION: the server has no database for the graph
    ├── GraphFull            RESOURCE_EXHAUSTED: the graph database has no memory left for a write
    └── GraphAway            UNAVAILABLE: the graph database can't be reached; after a write its outcome is unknown
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class GraphUnnamed(SignalboxError):
    """The caller's token has no claim that names a graph."""

    reason = "GRAPH_UNNAMED"
    code = grpc.StatusCode.PERMISSION_DENIED


class GraphForbidden(SignalboxError):
    """The graph database does not permit that to the executor's user, or not in that graph."""

    reason = "GRAPH_FORBIDDEN"
    code = grpc.StatusCode.FAILED_PRECONDITION


class GraphUnfit(SignalboxError):
    """The graph has nodes of a label whose keys nothing makes unique."""

    reason = "GRAPH_UNFIT"
    code = grpc.StatusCode.FAILED_PRECONDITION


class GraphMissing(SignalboxError):
    """The server has no database of that name; its administrator creates databases."""

    reason = "GRAPH_MISSING"
    code = grpc.StatusCode.FAILED_PRECONDITION


class GraphFull(SignalboxError):
    """The graph database has reached its bound of memory."""

    reason = "GRAPH_FULL"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class GraphAway(SignalboxError):
    """The graph database can't be reached, or dropped the connection."""

    reason = "GRAPH_DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True
