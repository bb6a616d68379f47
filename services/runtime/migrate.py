"""Brings the platform database up to date, in one step of its own: `python -m services.runtime.migrate`."""

from __future__ import annotations

from importlib.resources import as_file, files

from yoyo import get_backend, internalmigrations, read_migrations
from yoyo.backends import DatabaseBackend
from yoyo.migrations import MigrationList

from services.kit.logs import configure_logs, get_logger
from services.kit.settings import load_settings
from services.runtime.settings import MigrationSettings

log = get_logger()
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('signalbox migration', 3))"


def migrate(dsn: str) -> list[str]:
    """Applies what is missing and returns the names of what it applied; waits while another migration is at it."""
    scheme, _, rest = dsn.partition("://")
    if not scheme.startswith("postgres"):
        raise ValueError("the database must be given as a URL: postgresql://user:password@host:port/database")
    backend = get_backend(f"postgresql+psycopg://{rest}")
    applied: list[str] = []
    with backend, as_file(files(__package__) / "migrations") as folder:
        migrations = read_migrations(str(folder))
        while name := _apply_next(backend, migrations):
            applied.append(name)
    return applied


def _apply_next(backend: DatabaseBackend, migrations: MigrationList) -> str | None:
    """Applies the first migration that is missing and notes it, both or neither; returns its name."""
    with backend.transaction():
        # Not yoyo's own lock: that is a row, which a killed migration leaves behind.
        backend.execute(_LOCK)
        if internalmigrations.needs_upgrading(backend):
            internalmigrations.upgrade(backend)
        for migration in backend.to_apply(migrations):
            migration.process_steps(backend, "apply")
            backend.mark_one(migration)
            return str(migration.id)
    return None


def main() -> None:
    """Migrates the database that the settings name."""
    settings = load_settings(MigrationSettings)
    configure_logs("runtime-migrate", settings.log_level)
    log.info("migrated", applied=migrate(settings.database_dsn.get_secret_value()))


if __name__ == "__main__":
    main()
