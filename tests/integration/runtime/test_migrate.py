"""The migration step: it can be killed, started twice and started again, and the database is right after it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from yoyo import get_backend

from services.runtime.commands.migrate import migrate
from tests.fixtures.ports import reserved_port

DEADLINE_S = 60.0
_WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s
"""


@pytest.fixture
def observer(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@contextmanager
def migrating(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """The migration step as a process of its own, which is killed at the end of the context."""
    command = [sys.executable, "-m", "services.runtime.commands.migrate"]
    env = {"SIGNALBOX_DATABASE_DSN": dsn}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_lock(observer: psycopg.Connection, statement: str) -> None:
    """Waits until such a statement waits for a lock."""
    deadline = time.monotonic() + DEADLINE_S
    while observer.execute(_WAITING, [statement]).fetchone() != (1,):
        assert time.monotonic() < deadline, f"nothing waits with {statement}"
        time.sleep(0.05)


def test_a_migration_that_was_killed_half_way_does_not_keep_out_the_next(
    database: str, observer: psycopg.Connection
) -> None:
    with psycopg.connect(database) as blocker:
        blocker.execute("CREATE TABLE threads ()")  # not committed: the first migration waits for what becomes of it
        with migrating(database) as killed:
            wait_for_lock(observer, "%CREATE TABLE threads%")
        assert killed.returncode == -9
        blocker.rollback()
    assert migrate(database)
    assert migrate(database) == []


def test_a_migration_that_was_killed_before_it_was_noted_is_applied_again(
    database: str, observer: psycopg.Connection
) -> None:
    with get_backend(database.replace("postgresql://", "postgresql+psycopg://")) as backend:
        backend.ensure_internal_schema_updated()
    with psycopg.connect(database) as blocker:
        blocker.execute("LOCK TABLE _yoyo_migration IN EXCLUSIVE MODE")  # it can be read, but not written
        with migrating(database) as killed:
            wait_for_lock(observer, "%_yoyo_migration%")
        assert killed.returncode == -9
        blocker.rollback()
    assert migrate(database)
    assert migrate(database) == []


def test_migrations_that_start_together_apply_everything_once(database: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        applied = [name for names in pool.map(migrate, [database] * 3) for name in names]
    assert sorted(applied) == sorted(set(applied))
    assert migrate(database) == []


def test_a_url_of_several_servers_leads_to_the_one_that_takes_writes(database: str) -> None:
    with reserved_port() as away:
        parts = urlsplit(database)
        account, _, server = parts.netloc.rpartition("@")
        both = f"{account}@127.0.0.1:{away},{server}"
        applied = migrate(parts._replace(netloc=both, query="target_session_attrs=read-write").geturl())
    assert applied
    assert migrate(database) == []


def test_a_dsn_of_keys_and_values_is_one_too(database: str) -> None:
    assert migrate(make_conninfo(database))
    assert migrate(database) == []


def test_one_that_waits_for_another_says_for_whom(database: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(database) as blocker:
        blocker.execute("CREATE TABLE threads ()")  # not committed: the first migration waits for what becomes of it
        with migrating(database) as other:
            wait_for_lock(observer, "%CREATE TABLE threads%")
            with migrating(database) as waiting:
                assert waiting.stderr is not None
                told = json.loads(waiting.stderr.readline())
                assert told["event"] == "another migration is under way; this one waits for its end"
                # Nobody, where Postgres looked between two tries of the one that waits for the lock.
                assert told["blocked_by"] in ([blocker.info.backend_pid], [])
                assert "CREATE TABLE threads" in told["statement"] or not told["blocked_by"]
                blocker.rollback()
                assert (other.wait(DEADLINE_S), waiting.wait(DEADLINE_S)) == (0, 0)


def test_one_that_postgres_refuses_is_named_and_those_before_it_stay(database: str) -> None:
    # The newest that can't be applied twice: an index is made anew.
    newest = [each for each in migrate(database) if "_threads_by_" not in each][-1]
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute("DELETE FROM _yoyo_migration WHERE migration_id = %s", [newest])
    with migrating(database) as refused:
        _, told = refused.communicate(timeout=DEADLINE_S)
    assert refused.returncode == 2
    *_, error, advice = told.decode().splitlines()
    assert error.startswith(f"error: the migration {newest} can't be applied: ")
    assert "already exists" in error
    assert advice.startswith("what to do: ")


def test_one_whose_role_may_make_nothing_says_so(database: str, observer: psycopg.Connection) -> None:
    observer.execute("CREATE ROLE onlooker LOGIN PASSWORD 'onlooker'")
    try:
        with migrating(make_conninfo(database, user="onlooker", password="onlooker")) as refused:
            _, told = refused.communicate(timeout=DEADLINE_S)
    finally:
        observer.execute("DROP ROLE onlooker")
    assert refused.returncode == 2
    assert b"Traceback" not in told
    assert "error: permission denied for schema public" in told.decode()


def test_one_that_is_cut_off_says_so(database: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(database) as blocker:
        blocker.execute("CREATE TABLE threads ()")
        with migrating(database) as cut:
            wait_for_lock(observer, "%CREATE TABLE threads%")
            observer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE TABLE threads%'"
                " AND wait_event_type = 'Lock'"
            )
            _, told = cut.communicate(timeout=DEADLINE_S)
        blocker.rollback()
    assert cut.returncode == 2
    assert b"Traceback" not in told
    assert "terminating connection due to administrator command" in told.decode().splitlines()[-2]
    assert migrate(database)


def test_an_owner_who_may_make_no_extension_has_all_tables_without(database: str, observer: psycopg.Connection) -> None:
    name = conninfo_to_dict(database)["dbname"]
    observer.execute("CREATE ROLE owner_of_tables LOGIN PASSWORD 'owner'")
    observer.execute(sql.SQL("ALTER DATABASE {} OWNER TO owner_of_tables").format(sql.Identifier(str(name))))
    dsn = make_conninfo(database, user="owner_of_tables", password="owner")
    with migrating(dsn) as migration:
        _, told = migration.communicate(timeout=DEADLINE_S)
    assert migration.returncode == 0, told
    found = observer.execute(
        "SELECT to_regclass('platform.store_vectors') IS NOT NULL, to_regtype('vector') IS NOT NULL"
    )
    assert found.fetchone() == (True, False)
    observer.execute("DROP OWNED BY owner_of_tables CASCADE")
    observer.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(sql.Identifier(str(name))))
    observer.execute("DROP ROLE owner_of_tables")
