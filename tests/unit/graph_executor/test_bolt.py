"""Over Bolt: names of databases, what servers call themselves and plan, and what their errors mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from neo4j.exceptions import Neo4jError, ServiceUnavailable
from pydantic import ValidationError

from services.graph_executor.bolt import failure
from services.graph_executor.bolt_servers import server_of
from services.graph_executor.bolt_store import LONGEST_DATABASE_NAME, database_of
from services.graph_executor.settings import GraphExecutorSettings
from services.kit.tools.executor import ToolRefused

GRAPHS = (
    "signalbox", "signalbox:north", "signalbox:North", "signalbox:%6Eorth%20", "signalbox:a%3Ab", "signalbox:a-b",
    "signalbox:-a", "signalbox:" + "a" * 200, "signalbox:" + "a" * 201, "signalbox:b", "s:ignalbox",
)  # fmt: skip


def test_graphs_have_databases_of_their_own() -> None:
    names = [database_of(graph) for graph in GRAPHS]
    assert len(set(names)) == len(GRAPHS)
    assert names[:2] == ["signalbox", "signalbox-north"]
    assert all(len(name) <= LONGEST_DATABASE_NAME and name.replace("-", "").isalnum() for name in names)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Neo4j/5.26.0", "Neo4j"),
        ("Neo4j/5.26.0 compatible (ArcadeDB 26.10.2)", "ArcadeDB"),
        ("Neo4j/v5.11.0 compatible graph database server - Memgraph", "Memgraph"),
    ],
)
def test_a_server_is_known_by_what_it_calls_itself(agent: str, name: str) -> None:
    assert server_of(agent).name == name


def test_a_server_that_is_not_known_is_refused() -> None:
    with pytest.raises(ToolRefused, match="calls itself 'Another/1'"):
        server_of("Another/1")


MEMGRAPH = "Memgraph.TransientError.MemgraphError.MemgraphError"


def error(code: str, message: str = "") -> Exception:
    return Neo4jError._hydrate_neo4j(code=code, message=message or code)


@pytest.mark.parametrize(
    ("raised", "reason", "retryable"),
    [
        (ServiceUnavailable("gone"), "GRAPH_DATABASE_AWAY", True),
        (TimeoutError(), "GRAPH_DATABASE_AWAY", True),
        (ConnectionResetError(), "GRAPH_DATABASE_AWAY", True),
        (error("Neo.TransientError.General.DatabaseUnavailable"), "GRAPH_DATABASE_AWAY", True),
        (error("Neo.ClientError.Security.Unauthorized"), "GRAPH_DATABASE_AWAY", True),
        (error("Neo.ClientError.Security.Forbidden"), "GRAPH_FORBIDDEN", False),
        (error("Neo.ClientError.Database.DatabaseNotFound"), "GRAPH_MISSING", False),
        (error("Neo.ClientError.Statement.AccessMode"), "write_refused", False),
        (error("Neo.ClientError.Statement.SyntaxError"), "query_failed", False),
        (error("Neo.ClientError.Schema.ConstraintValidationFailed"), "query_failed", False),
        (error("Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration"), "timeout", True),
        (error("Neo.TransientError.General.MemoryPoolOutOfMemoryError"), "too_large", False),
        (error("Neo.TransientError.Cluster.NotALeader"), "GRAPH_DATABASE_AWAY", True),
        (error("Neo.TransientError.Transaction.DeadlockDetected"), "CONTENDED", True),
        (error("Neo.ClientError.Transaction.LockClientStopped"), "CONTENDED", True),
        # What a query says is not what the server says.
        (error("Neo.ClientError.Statement.SyntaxError", "Variable `timeout` not defined"), "query_failed", False),
        (error("Neo.ClientError.Statement.SyntaxError", "Variable `OutOfMemory` not defined"), "query_failed", False),
        (error(MEMGRAPH, "Unbound variable: timeout."), "query_failed", False),
        (error(MEMGRAPH, "Transaction was asked to abort, most likely because of its timeout."), "timeout", True),
        (error(MEMGRAPH, "Memory limit exceeded! Attempting to allocate a chunk."), "too_large", False),
        (error(MEMGRAPH, "Cannot resolve conflicting transactions."), "CONTENDED", True),
    ],
)
def test_what_errors_of_the_server_mean(raised: Exception, reason: str, retryable: bool) -> None:
    meant: Any = failure(raised)
    assert (meant.reason, meant.retryable) == (reason, retryable)


def settings(**named: Any) -> GraphExecutorSettings:
    return GraphExecutorSettings(graph_policy=Path("p"), run_token_public_key_file=Path("k"), **named)


@pytest.mark.parametrize("scheme", ["bolt", "bolt+s", "neo4j", "neo4j+s"])
def test_the_scheme_chooses_bolt(scheme: str) -> None:
    assert settings(graph_url=f"{scheme}://user:secret@host:7687").speaks_bolt


@pytest.mark.parametrize("url", ["redis://host:6379", "rediss://host:6379", "unix:///run/falkor.sock"])
def test_the_scheme_chooses_falkordb(url: str) -> None:
    assert not settings(graph_url=url).speaks_bolt


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"graph_url": "http://user:secret@host"}, "must begin with one of: bolt, bolt"),
        ({"graph_url": "bolt+ssc://user:secret@host"}, "must begin with one of"),
        ({"graph_url": "bolt://user:secret@host", "graph_ca": Path("ca")}, "goes with bolt"),
        ({"graph_url": "bolt://user:secret@host", "graph_claim": "sub", "graph_name": "g" * 30}, "characters"),
    ],
)
def test_settings_that_do_not_fit_are_refused_without_the_password(named: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as raised:
        settings(**named)
    assert "secret" not in str(raised.value)
