"""Brings the platform database up to date, in one step of its own: `python -m services.runtime.migrate`."""

from __future__ import annotations

from importlib.resources import as_file, files

from yoyo import get_backend, read_migrations

from services.kit.logs import configure_logs, get_logger
from services.kit.settings import load_settings
from services.runtime.settings import MigrationSettings

log = get_logger()


def migrate(dsn: str) -> list[str]:
    """Applies what is missing, under a lock, and returns the names of what it applied."""
    scheme, _, rest = dsn.partition("://")
    if not scheme.startswith("postgres"):
        raise ValueError("the database must be given as a URL: postgresql://user:password@host:port/database")
    backend = get_backend(f"postgresql+psycopg://{rest}")
    try:
        with as_file(files(__package__) / "migrations") as folder:
            migrations = read_migrations(str(folder))
            with backend.lock():
                missing = backend.to_apply(migrations)
                backend.apply_migrations(missing)
    finally:
        backend.connection.close()
    return [migration.id for migration in missing]


def main() -> None:
    """Migrates the database that the settings name."""
    settings = load_settings(MigrationSettings)
    configure_logs("runtime-migrate", settings.log_level)
    log.info("migrated", applied=migrate(settings.database_dsn.get_secret_value()))


if __name__ == "__main__":
    main()
