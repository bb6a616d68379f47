"""The services that agents can call, each by the name of its setting `<name>_target`."""

from __future__ import annotations

from dataclasses import dataclass

from services.kit.telemetry.names import (
    AUDIENCE_CODE_EXECUTOR,
    AUDIENCE_GRAPH_EXECUTOR,
    AUDIENCE_MCP_EXECUTOR,
    AUDIENCE_SQL_EXECUTOR,
)


@dataclass(frozen=True)
class Peer:
    """A service: `name` as in settings, `title` as in logs."""

    name: str
    title: str


@dataclass(frozen=True)
class Executor(Peer):
    """A service with tools, and the audience of the run tokens that it is given."""

    audience: str


GUARD = Peer("guard", "the guard")
EVALUATOR = Peer("evaluator", "the evaluator")
SQL_EXECUTOR = Executor("sql_executor", "the SQL executor", AUDIENCE_SQL_EXECUTOR)
CODE_EXECUTOR = Executor("code_executor", "the code executor", AUDIENCE_CODE_EXECUTOR)
GRAPH_EXECUTOR = Executor("graph_executor", "the graph executor", AUDIENCE_GRAPH_EXECUTOR)
MCP_EXECUTOR = Executor("mcp_executor", "the MCP executor", AUDIENCE_MCP_EXECUTOR)
