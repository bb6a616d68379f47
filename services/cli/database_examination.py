"""What `signalbox doctor` looks at in the databases that the settings name."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Final

import psycopg

from services.cli.examination import Examination, Found
from services.cli.settings import CliSettings
from services.kit.postgres import connect, leads_through_pooler
from services.local.settings import inherited_environment

# The oldest that is tested.
LEAST_VERSION: Final = 14
APPLICATION_NAME: Final = "signalbox-doctor"
MIGRATE: Final = "services.runtime.commands.migrate"
_STATE = "SELECT current_setting('server_version_num')::int, extract(epoch FROM clock_timestamp())::float8"


async def examine_databases(settings: CliSettings, clocks: dict[str, float]) -> AsyncIterator[Examination]:
    """Looks at each database that is named: reach, version, pooler, and migrations of the platform's own."""
    named = {
        "platform's database": ("SIGNALBOX_DATABASE_DSN", settings.database_dsn.get_secret_value()),
        "database to ask": ("SIGNALBOX_USER_DATABASE_DSN", settings.user_database_dsn.get_secret_value()),
        "few-shot store": ("SIGNALBOX_EXAMPLES_DSN", settings.examples_dsn.get_secret_value()),
    }
    for name, (variable, dsn) in named.items():
        if not dsn:
            yield Examination(name, Found.NOT_LOOKED_AT, f"{variable} is not set: `signalbox up` brings its own")
            continue
        reached = await _reach(name, variable, dsn, clocks)
        yield reached
        if name == "platform's database" and reached.found is Found.WELL:
            yield await _migrations(dsn)


async def _reach(name: str, variable: str, dsn: str, clocks: dict[str, float]) -> Examination:
    try:
        pooled = await leads_through_pooler(dsn)
        async with await connect(dsn, APPLICATION_NAME) as connection:
            before = time.time()
            row = await (await connection.execute(_STATE)).fetchone()
            after = time.time()
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        return Examination(name, Found.WRONG, f"can't be used: {said}", f"correct {variable}: psql ${variable}")
    number, clock = row or (0, before)
    clocks[name] = clock - (before + after) / 2
    version = f"PostgreSQL {number // 10000}.{number % 10000}{', through a pooler' if pooled else ''}"
    if number // 10000 < LEAST_VERSION:
        return Examination(name, Found.WRONG, version, f"upgrade the server to PostgreSQL {LEAST_VERSION} or newer")
    return Examination(name, Found.WELL, version)


async def _migrations(dsn: str) -> Examination:
    """Asks the runtime's own program, whose tables they are."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", MIGRATE, "--missing",
        env={**inherited_environment(), "SIGNALBOX_DATABASE_DSN": dsn},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if process.returncode:
        return Examination("migrations", Found.WRONG, " ".join(err.decode().split()), f"python -m {MIGRATE}")
    missing = out.decode().split()
    if missing:
        return Examination(
            "migrations", Found.WRONG, f"{len(missing)} missing, from {missing[0]} on", f"python -m {MIGRATE}"
        )
    return Examination("migrations", Found.WELL, "all of this release are applied")
