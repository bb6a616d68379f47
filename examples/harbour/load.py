"""Loads the harbour world into a Postgres database: `python -m examples.harbour.load [DSN]`.

HarbourError
└── NotEmptyError   the database holds other tables of these names
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import psycopg

from examples.harbour.incidents.tables import are_there, make_tables

WORLD = "Vessels of the fleet. (Signalbox demo world: harbour, version 1)"
TABLES = (
    "users",
    "ships",
    "devices",
    "user_device_assignment",
    "device_current_data",
    "device_readings",
    "admin",
)

_HERE = Path(__file__).parent
_LOCK = 4242_0001  # of two loaders at once, the second waits and finds the world there


class HarbourError(Exception):
    """The harbour world can't be loaded."""


class NotEmptyError(HarbourError):
    """The database already has tables of these names that are not the harbour world."""


async def load(dsn: str) -> bool:
    """Load what is not there yet in one transaction; returns False when all of it is, raises NotEmptyError."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        await connection.execute("SET LOCAL client_min_messages = warning")
        is_fleet_new = await _load_fleet(connection)
        # A world that was loaded before there were incidents lacks their tables, and nothing else.
        are_incidents_new = not await are_there(connection)
        if are_incidents_new:
            await make_tables(connection)
    return is_fleet_new or are_incidents_new


async def _load_fleet(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> bool:
    if await _is_loaded(connection):
        return False
    await connection.execute("SET LOCAL timezone = 'UTC'")
    for part in ("schema.sql", "data.sql", "indexes.sql"):
        await connection.execute((_HERE / part).read_bytes())
    await connection.execute(f"COMMENT ON TABLE public.ships IS '{WORLD}'")
    await connection.execute("ANALYZE " + ", ".join(f"public.{table}" for table in TABLES))
    return True


async def _is_loaded(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> bool:
    cursor = await connection.execute(
        "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relname = ANY(%s)",
        (list(TABLES),),
    )
    found = {str(name): comment for name, comment in await cursor.fetchall()}
    if not found:
        return False
    if set(found) == set(TABLES) and found["ships"] == WORLD:
        return True
    raise NotEmptyError(
        f"schema public already holds {', '.join(sorted(found))}, and it is not this version of the harbour "
        "world: give an empty database, or drop those tables first"
    )


def main(arguments: list[str]) -> int:
    """Load into the database of a DSN, or of libpq's own environment when none is given."""
    try:
        loaded = asyncio.run(load(arguments[0] if arguments else ""))
    except (HarbourError, psycopg.Error) as error:
        sys.stderr.write(f"harbour: {error}\n")
        return 1
    sys.stdout.write("harbour: loaded\n" if loaded else "harbour: already there\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
