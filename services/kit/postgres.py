"""Connections to Postgres, made in one place: whoever stands in front of it, they are set up alike (ADR 68)."""

from __future__ import annotations

from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from services.kit.dsn import connection_parameters
from services.kit.wire.silence import NOTICE_LOSS

PoolT = TypeVar("PoolT", bound=AsyncConnectionPool[Any])


def make_pool(
    dsn: str,
    application_name: str,
    *,
    prepare: bool,
    pool_class: type[PoolT] = AsyncConnectionPool,  # type: ignore[assignment]
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> PoolT:
    """Returns a pool, not open yet, of connections in autocommit mode.

    Without `prepare` its sessions may be a pooler's, which are shared: nothing outlives a transaction there.
    `parameters` are further ones of connections, `options` those of the pool.
    """
    given = {**connection_parameters(application_name, prepare=prepare), **(parameters or {})}
    return pool_class(dsn, kwargs=given, open=False, **options)


async def connect(dsn: str, application_name: str, **parameters: Any) -> AsyncConnection[Any]:
    """Connects once, in autocommit mode, without preparing anything. Raises psycopg.OperationalError."""
    return await AsyncConnection.connect(dsn, **connection_parameters(application_name, prepare=False), **parameters)


async def leads_through_pooler(dsn: str) -> bool:
    """Tells whether a pooler stands between a DSN and its server. Raises psycopg.OperationalError.

    The process that a connection begins with is then another than the one that answers.
    """
    async with await AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=None, **NOTICE_LOSS) as connection:
        cursor = await connection.execute("SELECT pg_backend_pid()")
        answered = await cursor.fetchone()
        return answered is not None and connection.info.backend_pid != answered[0]
