"""Migrations beside a release that serves: they wait without holding anybody up, and read nothing while they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from yoyo import read_migrations
from yoyo.migrations import Migration, read_sql_migration, topological_sort

from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from tests.fixtures.filled import TABLES, fill, migrate_as
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.postgres import TemplateDatabase
from tests.fixtures.release import Release, last_release
from tests.integration.runtime.test_migrate import DEADLINE_S, migrating, wait_for_lock

DECISIONS = 2_000
WRITES = 20
CALLERS = 4
MIGRATIONS = Path(str(files("services.runtime") / "migrations"))
# Modes in which a table is kept from those who write into it.
_KEPT_OUT = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND relation = ANY (%s)
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
"""
_BUILDERS = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%CREATE INDEX CONCURRENTLY%'"
_BUILDING = f"SELECT count(*) {_BUILDERS} AND pid <> pg_backend_pid()"
_END_BUILDING = f"SELECT pg_terminate_backend(pid) {_BUILDERS} AND pid <> pg_backend_pid()"
_THREADS_AND_RUNS = """
    SELECT t.thread_id, r.n FROM threads AS t
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM runs WHERE runs.subject = t.subject) AS r LIMIT 10
"""
_VACUUMED = "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'runs'::regclass"
# Of this connection, as far as it has not been reported; a transaction in progress reports nothing.
_TOUCHED = """
    SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint,
        coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint
    FROM pg_stat_xact_all_tables WHERE relid = ANY (%s)
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The last release."""
    return last_release(tmp_path_factory.mktemp("release"))


@pytest.fixture
async def served(template_database: TemplateDatabase, release: Release) -> str:
    """A database that the last release has filled."""

    async def prepare(dsn: str) -> None:
        migrate_as(release, dsn)
        fill(dsn, decisions=DECISIONS)

    return await template_database("last_release", prepare)


@pytest.fixture
def writer(served: str) -> Iterator[psycopg.Connection]:
    """A connection as the last release has it; a statement that waits for ever fails."""
    with psycopg.connect(served, autocommit=True) as connection:
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{DEADLINE_S:g}s"])
        # What an index alone answers, once the table has been vacuumed, is not counted as read from the table.
        connection.execute("SET enable_indexonlyscan = off")
        yield connection


def applied(connection: psycopg.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT migration_id FROM public._yoyo_migration").fetchall()}


@pytest.mark.parametrize("table", ["threads", "runs", "checkpoint_writes"])
def test_writers_go_on_while_a_migration_waits_for_a_table(served: str, writer: psycopg.Connection, table: str) -> None:
    before = applied(writer)
    with psycopg.connect(served) as reader:
        reader.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))  # a backup, say
        with migrating(served) as migration:
            wait_for_lock(writer, "%LOCK TABLE%")
            for number in range(WRITES):
                writer.execute("INSERT INTO threads (subject, thread_id) VALUES ('27', %s)", [f"new {number}"])
                writer.execute("UPDATE runs SET decision_count = decision_count + 1 WHERE correlation_id = 'c1'")
                writer.execute("DELETE FROM checkpoint_writes WHERE thread_id = %s", [f"none {number}"])
            assert applied(writer) == before, "the migration did not wait; this has shown nothing"
            assert migration.poll() is None
            reader.rollback()
            assert migration.wait(DEADLINE_S) == 0
    assert applied(writer) > before
    assert migrate(served) == []


@contextmanager
def busy(dsn: str) -> Iterator[None]:
    """Callers who never stop: they look at threads and their runs, and begin runs in them, as the last release does."""
    stopping, failed = threading.Event(), []

    def come_again() -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                while not stopping.is_set():
                    connection.execute(_THREADS_AND_RUNS)
                    with connection.transaction():
                        connection.execute("SELECT 1 FROM threads WHERE thread_id = 'thread 1' FOR UPDATE")
                        connection.execute("UPDATE runs SET event_count = event_count + 1 WHERE correlation_id = 'c1'")
        except psycopg.Error as error:
            failed.append(error)

    callers = [threading.Thread(target=come_again) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        stopping.set()
        for caller in callers:
            caller.join()
    assert failed == []


def test_a_migration_gets_through_among_callers_who_never_stop(served: str, writer: psycopg.Connection) -> None:
    with busy(served), migrating(served) as migration:
        assert migration.wait(DEADLINE_S) == 0
    assert migrate(served) == []
    assert writer.execute("SELECT event_count > 10 FROM runs WHERE correlation_id = 'c1'").fetchone() == (True,)


def test_a_migration_sends_autovacuum_away(release: Release) -> None:
    """Which would be at it for an hour here."""
    slow = {"autovacuum_naptime": "1s", "autovacuum_vacuum_cost_delay": "100ms", "autovacuum_vacuum_cost_limit": "1"}
    often = {"autovacuum_vacuum_threshold": "1", "autovacuum_vacuum_scale_factor": "0"}
    with EmbeddedPostgres(durable=False, settings={**slow, **often}, start_timeout_s=START_TIMEOUT_S) as server:
        migrate_as(release, server.dsn())
        fill(server.dsn(), decisions=10 * DECISIONS)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("UPDATE runs SET error = 'none'")
            deadline = time.monotonic() + DEADLINE_S
            while connection.execute(_VACUUMED).fetchone() == (0,):
                assert time.monotonic() < deadline, "autovacuum does not begin"
                time.sleep(0.05)
            with migrating(server.dsn()) as migration:
                assert migration.wait(DEADLINE_S) == 0
            assert "0007_pre_schema" in applied(connection)


def invalid_indexes(connection: psycopg.Connection) -> list[tuple[str, ...]]:
    return connection.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid").fetchall()


def test_an_index_whose_building_was_interrupted_is_built_again(served: str, writer: psycopg.Connection) -> None:
    with psycopg.connect(served) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")  # whoever builds an index beside others waits for those who began before
        with migrating(served):
            wait_for_lock(writer, "%CREATE INDEX CONCURRENTLY%")
            writer.execute(_END_BUILDING)
            wait_until_gone(writer)
    assert invalid_indexes(writer), "nothing was interrupted"
    assert migrate(served)
    assert invalid_indexes(writer) == []
    assert migrate(served) == []


def wait_until_gone(connection: psycopg.Connection) -> None:
    """Waits until nobody builds an index any more."""
    deadline = time.monotonic() + DEADLINE_S
    while connection.execute(_BUILDING).fetchone() != (0,):
        assert time.monotonic() < deadline, "the building goes on"
        time.sleep(0.05)


def unreleased(release: Release) -> list[Migration]:
    """This release's own migrations, in order."""
    known = {path.name for path in (release.folder / "services" / "runtime" / "migrations").glob("*.sql")}
    ordered = topological_sort(read_migrations(str(MIGRATIONS)))
    return [migration for migration in ordered if Path(migration.path).name not in known]


def stops_writers(connection: psycopg.Connection, path: str, tables: list[int]) -> list[str]:
    """Applies a migration; returns its statements that go through a table while writers are kept out of one."""
    directives, _, statements = read_sql_migration(path)
    if directives.get("transactional") == "false":
        for statement in statements:
            connection.execute(statement.encode())
        return [statement for statement in statements if "CONCURRENTLY" not in statement]
    found = []
    with connection.transaction():
        # Not from 0: what earlier transactions have not reported yet is counted too.
        [[before, changed_before]] = connection.execute(_TOUCHED, [tables]).fetchall()
        for statement in statements:
            connection.execute(statement.encode())
            [[read, changed]] = connection.execute(_TOUCHED, [tables]).fetchall()
            [[kept_out]] = connection.execute(_KEPT_OUT, [tables]).fetchall()
            # A row that was changed is kept from its writers until the end of the transaction.
            if (kept_out and read - before >= DECISIONS // 10) or changed - changed_before >= DECISIONS // 10:
                found.append(statement)
            before = read
    return found


def tables_of(connection: psycopg.Connection) -> list[int]:
    """The filled tables, which keep their ids whatever they are called."""
    return [
        oid
        for (oid,) in connection.execute("SELECT oid FROM pg_class WHERE relname = ANY (%s)", [list(TABLES)]).fetchall()
    ]


def test_no_migration_goes_through_a_table_that_it_keeps_writers_out_of(
    release: Release, writer: psycopg.Connection
) -> None:
    tables = tables_of(writer)
    migrations = unreleased(release)
    assert migrations, "there is nothing to look at"
    assert [each for migration in migrations for each in stops_writers(writer, migration.path, tables)] == []
    for table, rows in (("decisions", DECISIONS), ("run_events", DECISIONS), ("runs", DECISIONS // 10)):
        for schema in ("public", "platform"):
            counted = writer.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)))
            assert counted.fetchone() == (rows,), "what was there can be read under both names"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX ON decisions (agent);",
        "ALTER TABLE decisions ADD COLUMN made uuid NOT NULL DEFAULT gen_random_uuid();",
        "ALTER TABLE decisions ADD CONSTRAINT positive CHECK (sequence > 0);",
        "ALTER TABLE run_events ADD FOREIGN KEY (run_id) REFERENCES runs;",
        "UPDATE runs SET error = 'none';",
        "LOCK TABLE decisions IN EXCLUSIVE MODE; SELECT count(*) FROM decisions;",
    ],
)
def test_that_check_finds_what_does(writer: psycopg.Connection, tmp_path: Path, statement: str) -> None:
    file = tmp_path / "0099_pre_bad.sql"
    file.write_text(statement)
    assert stops_writers(writer, str(file), tables_of(writer))


def test_that_check_finds_an_index_built_outside_a_transaction(writer: psycopg.Connection, tmp_path: Path) -> None:
    file = tmp_path / "0099_pre_bad.sql"
    file.write_text("-- transactional: false\nCREATE INDEX ON decisions (agent);\n")
    assert stops_writers(writer, str(file), tables_of(writer))
