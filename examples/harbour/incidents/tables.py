"""The tables of deployments and metrics, filled."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import psycopg

from examples.harbour.incidents.rows import deployments, metrics
from examples.harbour.incidents.world import ServiceWorld

TABLES = ("deployments", "service_metrics")
_SCHEMA = Path(__file__).with_name("schema.sql")


async def make_tables(connection: psycopg.AsyncConnection[Any], world: ServiceWorld | None = None) -> None:
    """Makes and fills them, in the connection's transaction."""
    await connection.execute(_SCHEMA.read_bytes())
    await fill_tables(connection, world or ServiceWorld())


async def fill_tables(connection: psycopg.AsyncConnection[Any], world: ServiceWorld) -> None:
    """Adds the rows of a world to those of others, in the connection's transaction."""
    found = await (await connection.execute("SELECT count(*) FROM public.deployments")).fetchone()
    async with connection.cursor() as cursor:
        async with cursor.copy("COPY public.deployments FROM STDIN") as copy:
            for number, deployment in enumerate(deployments(world), 1 + (found[0] if found else 0)):
                await copy.write_row((number, *astuple(deployment)))
        async with cursor.copy("COPY public.service_metrics FROM STDIN") as copy:
            for row in metrics(world):
                await copy.write_row(row)
    await connection.execute("ANALYZE public.deployments, public.service_metrics")


async def are_there(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Tells whether the tables are there."""
    found = await connection.execute("SELECT to_regclass('public.deployments') IS NOT NULL")
    row = await found.fetchone()
    return bool(row and row[0])
