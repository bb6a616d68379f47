"""The partitions of events and decisions: a week of run ids each, made ahead, and dropped whole.

A run's rows lie in the partition of the week in which its id was made, however long it goes on. Rows for which there is
no partition go to the default one, and are moved when their partition is made.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import LockNotAvailable

from services.kit.identifiers import uuid7_floor
from services.kit.telemetry.logs import get_logger
from services.runtime.engine.queries import query

log = get_logger()
WEEK = timedelta(weeks=1)
# A platform that stood still for as long finds partitions all the same.
WEEKS_AHEAD = 8
PARTITIONED = ("run_events", "decisions")
# Nobody waits longer than this behind a change of partitions; it is tried again in the next round.
_GIVE_WAY = "SET LOCAL lock_timeout = '500ms'"


def week_of(moment: datetime) -> datetime:
    """Returns the Monday, 00:00 UTC, on which the partition of a moment begins."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


async def make_partitions(connection: AsyncConnection[Any]) -> list[str]:
    """Makes those partitions of the weeks ahead that are missing; returns their names, none while a table is busy."""
    made, this_week = [], week_of(datetime.now(UTC))
    try:
        async with connection.transaction():
            await connection.execute(_GIVE_WAY)
            for table in PARTITIONED:
                covered = await _end_of_latest(connection, table)
                weeks = [this_week + number * WEEK for number in range(WEEKS_AHEAD + 1)]
                made += [await _make(connection, table, week) for week in weeks if uuid7_floor(week) >= covered]
    except LockNotAvailable:
        log.info("a table is in use; its partitions are made another time")
        return []
    if made:
        log.info("partitions made", partitions=made)
    return made


async def _end_of_latest(connection: AsyncConnection[Any], table: str) -> str:
    cursor = await connection.execute(query("partitions"), {"table": table})
    return max((upper for (upper,) in await cursor.fetchall()), default="")


async def _make(connection: AsyncConnection[Any], table: str, begin: datetime) -> str:
    name = f"{table}_{begin:%Y%m%d}"
    given = {
        "table": sql.Identifier("platform", table),
        "other": sql.Identifier("platform", f"{table}_other"),
        "part": sql.Identifier("platform", name),
        "begin": uuid7_floor(begin),
        "end": uuid7_floor(begin + WEEK),
    }
    for statement in (
        "LOCK TABLE {other} IN ACCESS EXCLUSIVE MODE",
        "CREATE TABLE {part} (LIKE {table} INCLUDING ALL)",
        "INSERT INTO {part} SELECT * FROM {other} WHERE run_id >= {begin} AND run_id < {end}",
        "DELETE FROM {other} WHERE run_id >= {begin} AND run_id < {end}",
        "ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES FROM ({begin}) TO ({end})",
    ):
        await connection.execute(sql.SQL(statement).format(**given))
    return name


async def drop_partitions(
    connection: AsyncConnection[Any], oldest_kept: str | None, decided_until: datetime | None
) -> list[tuple[str, int, int]]:
    """Drops the partitions of which nothing is kept, in the caller's transaction; none while a table is busy.

    Of decisions those before the run id `oldest_kept` whose runs have all ended before `decided_until` or are gone, of
    events those whose runs are gone.
    Returns agent, number and bytes of the decisions that went.
    """
    try:
        async with connection.transaction():
            return await _drop(connection, oldest_kept, decided_until)
    except LockNotAvailable:
        log.info("a table is in use; its old partitions go another time")
        return []


async def _drop(
    connection: AsyncConnection[Any], oldest_kept: str | None, decided_until: datetime | None
) -> list[tuple[str, int, int]]:
    gone: list[tuple[str, int, int]] = []
    parameters = {
        "oldest_kept": oldest_kept,
        "decided_until": decided_until,
        "this_week": uuid7_floor(week_of(datetime.now(UTC))),
    }
    cursor = await connection.execute(query("partitions_to_drop"), parameters)
    old = await cursor.fetchall()
    for table, name in old:
        if table == "decisions":
            part = sql.Identifier("platform", name)
            cursor = await connection.execute(sql.SQL(query("decisions_of_partition")).format(part=part))
            gone += await cursor.fetchall()
    # Nobody writes to a table from when one of its partitions is dropped until that is committed.
    for _, name in old:
        await connection.execute(_GIVE_WAY)
        await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("platform", name)))
        log.info("partition dropped", partition=name)
    return gone
