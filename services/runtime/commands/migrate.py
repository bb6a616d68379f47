"""Brings the platform database up to date, in one step of its own: `python -m services.runtime.commands.migrate`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from importlib.resources import as_file, files
from urllib.parse import urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled
from tenacity import (
    RetryCallState,
    retry,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_random,
    wait_random_exponential,
)
from yoyo import get_backend, internalmigrations, read_migrations
from yoyo.backends import DatabaseBackend
from yoyo.migrations import Migration, MigrationList

from services.kit.dsn import require_database
from services.kit.postgres import leads_through_pooler
from services.kit.settings import load_settings, refuse
from services.kit.telemetry.logs import configure_logs, get_logger
from services.kit.text.printing import printable
from services.runtime.engine.queries import query
from services.runtime.settings import POOLER_IN_THE_WAY, MigrationSettings

log = get_logger()
DSN_VARIABLE, DIRECT_VARIABLE = "SIGNALBOX_DATABASE_DSN", "SIGNALBOX_DIRECT_DSN"
# A change that waits for a lock holds up everybody behind it: it gives way after less than Postgres's deadlock_timeout,
# and comes back. This is for each lock: a migration that takes several in one statement bounds that statement.
_GIVE_WAY = "SET LOCAL lock_timeout = '500ms'"
# Autovacuum leaves only when somebody has waited for it longer than deadlock_timeout. In this mode that is no harm: who
# reads and writes passes, and nothing else begins to tend the tables before the migration is through.
_WAIT = "SET LOCAL lock_timeout = '5s'"
# Less than Helm waits for a Job by itself: then the Job's log says why, and not only Helm that it took too long.
GIVE_UP_AFTER_S = 240
# Of the session, since an index built beside writers takes no transaction around it; and tried again and again, since
# such a build waits for every transaction that is under way, also for one that waits for this lock.
_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('signalbox migration', 3))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('signalbox migration', 3))"
# As often as somebody who reads along would ask.
TELL_EVERY_S = 30.0


class MigrationFailed(Exception):
    """Postgres refused a migration; the message says which, and why."""


def migrate(dsn: str) -> list[str]:
    """Applies what is missing and returns the names of what it applied; waits while another migration is at it.

    Raises MigrationFailed, and psycopg.Error for what has to do with none of them.
    """
    # Read as libpq reads it: yoyo's own reading knows no URL of several servers.
    backend = get_backend(f"postgresql+psycopg:///?{urlencode(conninfo_to_dict(dsn))}")
    applied: list[str] = []
    with backend, as_file(files("services.runtime") / "migrations") as folder:
        migrations = read_migrations(str(folder))
        _take_lock(backend)
        # Once: under the lock nobody else applies any, and sorting them anew after each took longer than most take.
        for migration in _to_apply(backend, migrations):
            log.info("applying a migration", migration=migration.id)
            try:
                _apply(backend, migration)
            except psycopg.Error as error:
                raise MigrationFailed(f"the migration {migration.id} can't be applied: {_first(error)}") from error
            applied.append(str(migration.id))
        # A pooler's session outlives this connection, and would keep the lock.
        backend.execute(_UNLOCK)
    return applied


def missing(dsn: str) -> list[str]:
    """Returns the names of the migrations that a database lacks; only reads. Raises psycopg.Error."""
    with as_file(files("services.runtime") / "migrations") as folder:
        known = [str(migration.id) for migration in read_migrations(str(folder))]
    with psycopg.connect(dsn, prepare_threshold=None) as connection:
        [[is_there]] = connection.execute("SELECT to_regclass('_yoyo_migration') IS NOT NULL").fetchall()
        rows = connection.execute("SELECT migration_id FROM _yoyo_migration").fetchall() if is_there else []
    applied = {name for (name,) in rows}
    return [name for name in known if name not in applied]


def _first(error: BaseException) -> BaseException:
    # On a connection that is gone, yoyo's rollback fails too, and would be all that is told.
    while isinstance(error.__context__, psycopg.Error):
        error = error.__context__
    return error


def _take_lock(backend: DatabaseBackend) -> None:
    until = time.monotonic() + GIVE_UP_AFTER_S
    locked = _try_lock(backend)
    while not locked:
        if time.monotonic() > until:
            raise MigrationFailed(f"another migration has been under way for {GIVE_UP_AFTER_S} s")
        _tell_who_is_at_it(backend)
        locked = _try_lock_for_a_while(backend)


def _try_lock(backend: DatabaseBackend) -> bool:
    # Not yoyo's own lock: that is a row, which a killed migration leaves behind.
    [locked] = backend.execute(_LOCK).fetchone()
    return bool(locked)


_try_lock_for_a_while = retry(
    retry=retry_if_result(lambda locked: not locked),
    wait=wait_random(0.1, 0.5),
    stop=stop_after_delay(TELL_EVERY_S),
    retry_error_callback=lambda _: False,
)(_try_lock)


def _tell_who_is_at_it(backend: DatabaseBackend) -> None:
    for pid, address, since, blocked_by, statement in backend.execute(query("migration_under_way")).fetchall():
        log.info(
            "another migration is under way; this one waits for its end",
            pid=pid, address=address, since=since, blocked_by=blocked_by, statement=statement,
        )  # fmt: skip


def _note_wait(state: RetryCallState) -> None:
    log.info("a table is in use; the migration tries again", attempt=state.attempt_number)


_patiently = retry(
    retry=retry_if_exception_type((LockNotAvailable, QueryCanceled, DeadlockDetected)),
    wait=wait_random_exponential(multiplier=0.1, max=5),
    stop=stop_after_delay(GIVE_UP_AFTER_S),
    before_sleep=_note_wait,
    reraise=True,
)


@_patiently
def _to_apply(backend: DatabaseBackend, migrations: MigrationList) -> list[Migration]:
    with backend.transaction():
        if internalmigrations.needs_upgrading(backend):
            internalmigrations.upgrade(backend)
        return list(backend.to_apply(migrations))


@_patiently
def _apply(backend: DatabaseBackend, migration: Migration) -> None:
    """Applies a migration and notes it.

    Both or neither; one that takes no transaction can be done and not noted, and must bear to be done again.
    """
    migration.load()
    if not migration.use_transactions:
        migration.process_steps(backend, "apply")
    with backend.transaction():
        # In the session that holds the lock, or not at all: a pooler may have given this transaction another.
        if not backend.execute(query("migration_lock_is_held")).fetchone()[0]:
            raise MigrationFailed("the session with the migration's lock is gone: " + POOLER_IN_THE_WAY)
        if migration.use_transactions:
            backend.execute(_WAIT)
            backend.execute(query("send_autovacuum_away"))
            backend.execute(_GIVE_WAY)
            migration.process_steps(backend, "apply")
        backend.mark_one(migration)


def main() -> None:
    """Migrates the database that the settings name; with `--missing`, says what that would apply."""
    parser = argparse.ArgumentParser(prog="migrate", description=main.__doc__)
    parser.add_argument("--missing", action="store_true", help="only print the names of what is missing")
    options = parser.parse_args()
    settings = load_settings(MigrationSettings)
    configure_logs("runtime-migrate", settings.log_level)
    dsn, variable = settings.session_dsn, DIRECT_VARIABLE if settings.direct_dsn else DSN_VARIABLE
    require_database(dsn, variable)
    try:
        if options.missing:
            sys.stdout.write("".join(f"{name}\n" for name in missing(dsn)))
            return
        if settings.direct_dsn is None and asyncio.run(leads_through_pooler(dsn)):
            refuse([POOLER_IN_THE_WAY])
        applied = migrate(dsn)
    except (MigrationFailed, psycopg.Error) as error:
        told = printable(" ".join(str(error).split()))
        refuse([f"error: {told}", "what to do: migrate again once that is mended; what was applied before it stays"])
    log.info("migrated", applied=applied)


if __name__ == "__main__":
    main()
