"""Behind a pooler a connection begins with the pooler's own process, and each transaction may be in another."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.server import check_secret
from tests.fixtures.patience import START_TIMEOUT_S
from tests.integration.sql_executor.fleet import CALLER, NEIGHBOUR, SECRET, Fleet

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="pgbouncer is not installed"),
]
_CONFIG = """
[databases]
{dbname} = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


@pytest.fixture(params=[("session", 4), ("transaction", 2)], ids=lambda param: param[0])
def pooled_dsn(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[str]:
    """The way to the database through pgbouncer, which takes connections from then on."""
    parts = psycopg.conninfo.conninfo_to_dict(fleet.reader_dsn)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = free.getsockname()[1]
    # It does not run as root, and whoever it runs as has to read this.
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write(_CONFIG.format(**parts, listen=listen, mode=request.param[0], size=request.param[1]))
        config.flush()
        Path(config.name).chmod(0o644)
        command = ["pgbouncer", *(["-u", "nobody"] if os.getuid() == 0 else []), config.name]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            said = list(itertools.takewhile(lambda line: "process up" not in line, process.stderr))
            try:
                assert process.poll() is None, said
                yield psycopg.conninfo.make_conninfo("", **{**parts, "port": listen, "host": "127.0.0.1"})
            finally:
                process.terminate()


async def test_callers_are_believed_and_kept_apart_behind_a_pooler(pooled_dsn: str, fleet: Fleet) -> None:
    async with reader_pool(pooled_dsn, min_size=0, max_size=4, wait_s=START_TIMEOUT_S) as pool:
        runner = QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)
        await check_secret(runner)

        async def ask(user: int) -> None:
            table = await runner.run("SELECT user_id FROM users", SqlCaller(str(user), is_admin=False))
            assert table.rows == [(str(user),)]

        await asyncio.gather(*(ask(user) for user in (CALLER, NEIGHBOUR, 22, 23, 24, 25) * 10))
        await runner.aclose()
