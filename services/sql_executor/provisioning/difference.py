"""What a database lacks of what the policy promises, and the statements that mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.abc import Params
from psycopg.rows import namedtuple_row

from services.sql_executor.policy import SqlPolicy
from services.sql_executor.queries import load_queries

Sql = sql.SQL | sql.Composed
_QUERIES = load_queries("state.sql")


@dataclass(frozen=True)
class Statement:
    """One statement, ready to run; parameters are secrets and never shown."""

    text: Sql
    secrets: tuple[object, ...] = ()

    def shown(self) -> str:
        """Returns the statement with its secrets left out."""
        return self.text.as_string(None).replace("%s", "'…'") if self.secrets else self.text.as_string(None)


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the policy promises; without statements it is for a person to mend."""

    problem: str
    statements: Sequence[Statement] = ()
    needs_superuser: bool = False


def mend(problem: str, *statements: Sql, needs_superuser: bool = False) -> Difference:
    """Returns a difference that statements mend."""
    return Difference(problem, [Statement(text) for text in statements], needs_superuser)


class State:
    """Reads the live state of a database; any role may, except for the secret."""

    def __init__(self, connection: AsyncConnection[Any], policy: SqlPolicy, *, secret: str | None = None) -> None:
        self.connection = connection
        self.policy = policy
        self.secret = secret
        self.reader = policy.roles.reader
        self.owner = policy.roles.owner

    async def rows(self, query: str, **params: Params | object) -> list[Any]:
        """Runs one of the named queries on the state; roles are bound already."""
        bound = {"role": self.reader, "policy_role": self.owner, **params}
        async with self.connection.cursor(row_factory=namedtuple_row) as cursor:
            await cursor.execute(_QUERIES[query], bound)
            return await cursor.fetchall()
