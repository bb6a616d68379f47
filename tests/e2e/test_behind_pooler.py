"""The whole platform behind pgbouncer, as companies have Postgres: every database of it, in both of its modes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import psycopg
from psycopg import sql
from signalbox.v1 import runs_pb2

from services.local.database import MIGRATION, with_database
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.pgbouncer import TRANSACTION, Pooling, in_both_modes, needs_pgbouncer, pgbouncer
from tests.fixtures.stack import World, platform

pytestmark = needs_pgbouncer
CALLERS = ("27", "31", "22", "23")
ROUNDS = 4
_LOCKS = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'advisory' AND datname = current_database()
"""


@asynccontextmanager
async def empty_database(cluster_dsn: str) -> AsyncIterator[str]:
    """A database for a platform, and the way to it that is past any pooler."""
    name = f"pooled_{uuid4().hex[:8]}"
    async with await psycopg.AsyncConnection.connect(cluster_dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield with_database(cluster_dsn, name)
        finally:
            await connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@in_both_modes
async def test_callers_are_answered_while_all_share_few_sessions(harbour: World, pooling: Pooling) -> None:
    user = harbour.user_database
    async with empty_database(harbour.cluster_dsn) as direct:
        with pgbouncer({"platform": direct, "reader": user.reader_dsn, "examples": user.examples_dsn}, pooling) as via:
            pooled = replace(user, reader_dsn=via["reader"], examples_dsn=via["examples"])
            async with platform(
                replace(harbour, user_database=pooled),
                platform_dsn=via["platform"],
                runtime_replicas=2,
                service_env={"runtime": {"SIGNALBOX_DIRECT_DSN": direct}},
            ) as running:

                async def asked(subject: str) -> tuple[str, str]:
                    answer = await running.caller(subject).ask("How many devices do I have?")
                    assert answer.run.state == runs_pb2.RUN_STATE_SUCCEEDED, answer
                    return subject, answer.output.answer

                told = set(await asyncio.gather(*(asked(subject) for subject in CALLERS * ROUNDS)))
                # Each is told the same each time, and not what another is.
                assert len(told) == len(CALLERS)
                assert len({answer for _, answer in told}) > 1
                await running.verify_ledger()


def started(module: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Starts a program as an operator would, and waits for its end."""
    return subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False,
    )  # fmt: skip


async def test_what_needs_a_session_of_its_own_says_so(harbour: World) -> None:
    async with empty_database(harbour.cluster_dsn) as direct:
        with pgbouncer({"platform": direct}, TRANSACTION) as via:
            refused = await asyncio.to_thread(started, MIGRATION, SIGNALBOX_DATABASE_DSN=via["platform"])
            assert refused.returncode == 2
            assert "set SIGNALBOX_DIRECT_DSN to a DSN of the same database past it" in refused.stderr
            both = {"SIGNALBOX_DATABASE_DSN": via["platform"], "SIGNALBOX_DIRECT_DSN": direct}
            done = await asyncio.to_thread(lambda: started(MIGRATION, **both))
            assert done.returncode == 0, done.stderr


@in_both_modes
async def test_a_migration_through_a_pooler_leaves_no_lock_there(harbour: World, pooling: Pooling) -> None:
    """Given as the direct way all the same: in session mode it is one."""
    async with empty_database(harbour.cluster_dsn) as direct:
        with pgbouncer({"platform": direct}, pooling) as via:
            both = {"SIGNALBOX_DATABASE_DSN": direct, "SIGNALBOX_DIRECT_DSN": via["platform"]}
            await asyncio.to_thread(lambda: started(MIGRATION, **both))
            async with await psycopg.AsyncConnection.connect(direct) as connection:
                cursor = await connection.execute(_LOCKS)
                assert await cursor.fetchone() == (0,)
            again = await asyncio.to_thread(lambda: started(MIGRATION, SIGNALBOX_DATABASE_DSN=direct))
            assert again.returncode == 0, again.stderr
