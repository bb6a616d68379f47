"""Whoever opens connections to Postgres has them made in one place, where what a pooler forbids is known (ADR 68)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.deploy.helm import ROOT

SERVICES = ROOT / "services"
CONSTRUCTOR = SERVICES / "kit" / "postgres.py"
# Each with the reason.
OTHERS = {
    "kit/dsn.py": "a command looks whether there is a database at all",
    "local/database.py": "makes databases, at the server itself",
    "runtime/commands/migrate.py": "reads what a database lacks, at what may not be the platform's yet",
    "runtime/engine/liveness.py": "a session of its own, past any pooler",
    "sql_executor/pool.py": "one more connection with the parameters of its pool",
}


def opened(path: Path) -> Iterator[str]:
    """What in a module opens connections or makes a pool by itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.endswith("ConnectionPool") or called.split(".")[-2:] in (
                ["AsyncConnection", "connect"],
                ["Connection", "connect"],
                ["psycopg", "connect"],
                ["_Listening", "connect"],
            ):
                yield called


def test_pools_and_connections_are_made_by_one_constructor() -> None:
    found = {
        str(path.relative_to(SERVICES)): set(opened(path))
        for path in SERVICES.rglob("*.py")
        if path != CONSTRUCTOR and "redis" not in path.read_text()
    }
    found = {path: calls for path, calls in found.items() if calls}
    assert found.keys() == OTHERS.keys(), found
    assert not any(call.endswith("Pool") for calls in found.values() for call in calls)
