"""One query tried as a caller: what runs, what they see, or why it is refused."""

from __future__ import annotations

from services.kit.identity.caller import Caller
from services.kit.postgres import connect
from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, sql_caller
from services.sql_executor.catalog import read_catalog
from services.sql_executor.execution import QueryRunner
from services.sql_executor.policy import SqlPolicy
from services.sql_executor.pool import APPLICATION_NAME, reader_pool
from services.sql_executor.statement import Statements

_SHOWN_ROWS = 50


async def tried(policy: SqlPolicy, dsn: str, secret: str, caller: Caller, query: str) -> tuple[str, bool]:
    """Runs a query as the reader role, for a caller; returns what to show, and whether it was answered.

    Raises CallerUnfit, DatabaseDown, UnsafeDatabase and psycopg.Error.
    """
    owner = sql_caller(caller, policy)
    async with await connect(dsn, APPLICATION_NAME) as connection:
        catalog = await read_catalog(connection, policy)
    statements = Statements(catalog)
    statement = ""
    try:
        checked = await statements.for_caller(query, owner)
        statement = checked.sql
        async with reader_pool(dsn, min_size=1, max_size=1) as pool:
            runner = QueryRunner(pool, CallerSigner(secret), policy.limits)
            table = await runner.run(statement, owner, parts=checked.parts)
            await runner.aclose()
    except ToolRefused as refusal:
        ran = f"{statement};\n" if statement else ""
        return f"{ran}refused ({refusal.reason}): {refusal.message}", False
    finally:
        statements.close()
    return f"{statement};\n{table.to_text(_SHOWN_ROWS)}", True
