"""Roles, grants and row-level security that a policy file needs in its database: shown, applied and checked.

Both `plan` and `verify` come from the same comparison of the live database with the policy: a difference is what is
wrong, with the statements that mend it. `apply` runs those and compares again before it commits.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection, sql
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from services.sql_executor.policy import SqlPolicy
from services.sql_executor.provisioning.difference import Difference, Sql, State, Statement
from services.sql_executor.provisioning.inheritance import inheritance_differences
from services.sql_executor.provisioning.isolation import isolation_differences
from services.sql_executor.provisioning.key_types import key_type_differences
from services.sql_executor.provisioning.objects import object_differences
from services.sql_executor.provisioning.roles import role_differences
from services.sql_executor.provisioning.surroundings import surroundings_differences

# Mending one thing may show another, for example a grant that a dropped view hid.
_ROUNDS = 4


class NotApplied(Exception):
    """The database could not be brought to what the policy promises; nothing was changed."""

    def __init__(self, left: list[Difference]) -> None:
        super().__init__("; ".join(difference.problem for difference in left))
        self.left = left


async def compare(connection: AsyncConnection[Any], policy: SqlPolicy, secret: str | None = None) -> list[Difference]:
    """Returns everything that is not as the policy promises, in the order in which to mend it.

    Any role may compare, the reader too; the caller secret is only compared when given and readable.
    """
    # It changes nothing but the search_path, which is the session's own again afterwards.
    async with connection.transaction(force_rollback=True):
        await connection.execute(search_path(policy))
        state = State(connection, policy, secret=secret)
        found = await role_differences(state)
        found += await surroundings_differences(state)
        found += await object_differences(state)
        found += await isolation_differences(state)
        return [*found, *await inheritance_differences(state), *await key_type_differences(state)]


def search_path(policy: SqlPolicy) -> Sql:
    """Returns the statement that fixes, for a transaction, how the database spells names in what is compared.

    With the reader's own schema in it: so the executor has always compared, and databases keep the marks of that.
    """
    return sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp").format(sql.Identifier(policy.schemas[0]))


# GRANT changes a table's row of the catalog without a lock on the table. A vacuum that has the lock and comes to that
# row waits for the transaction, which comes to the table's lock later.
@retry(
    retry=retry_if_exception_type(psycopg.errors.DeadlockDetected),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    stop=stop_after_attempt(8),
    reraise=True,
)
async def apply(
    connection: AsyncConnection[Any], policy: SqlPolicy, *, secret: str, reader_password: str | None = None
) -> list[Difference]:
    """Mends every difference in one transaction and returns what was mended; after a deadlock it begins again.

    Raises NotApplied, and then changes nothing.
    """
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '10s'")
        await connection.execute(search_path(policy))
        if beyond := await beyond_reach(connection, await compare(connection, policy, secret)):
            raise NotApplied(beyond)
        done = await _mend(connection, policy, secret)
        if left := await compare(connection, policy, secret):
            raise NotApplied(left)
        if reader_password is not None:
            await _set_password(connection, policy, reader_password)
    return done


async def _mend(connection: AsyncConnection[Any], policy: SqlPolicy, secret: str) -> list[Difference]:
    done: list[Difference] = []
    for _ in range(_ROUNDS):
        every = await compare(connection, policy, secret)
        found = [each for each in every if each.statements]
        if not found:
            break
        try:
            await _run(connection, found)
        except psycopg.errors.InsufficientPrivilege:
            raise
        except (psycopg.ProgrammingError, psycopg.InternalError) as error:  # often what a person has to mend
            by_hand = [each for each in every if not each.statements]
            raise NotApplied([*by_hand, Difference(f"Postgres refused a statement: {_first_line(error)}")]) from error
        done += found
    return done


async def beyond_reach(connection: AsyncConnection[Any], found: list[Difference]) -> list[Difference]:
    """Returns the differences that the role of a connection can't mend, since only a superuser can."""
    cursor = await connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    row = await cursor.fetchone()
    if row is not None and row[0]:
        return []
    words = "; that needs a superuser: apply as one, or set `hardening: false` in the policy file"
    return [Difference(each.problem + words) for each in found if each.needs_superuser]


async def _run(connection: AsyncConnection[Any], differences: list[Difference]) -> None:
    for difference in differences:
        for statement in difference.statements:
            await connection.execute(statement.text, statement.secrets or None)


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]


async def _set_password(connection: AsyncConnection[Any], policy: SqlPolicy, password: str) -> None:
    # Hashed here, so that the password itself reaches neither the server's log nor pg_stat_activity.
    role = policy.roles.reader
    hashed = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    await connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed)))


__all__ = ["Difference", "NotApplied", "Statement", "apply", "beyond_reach", "compare", "search_path"]
