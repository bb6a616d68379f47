"""Fills the few-shot store: `python -m services.sql_executor.load_examples --file FILE --dsn-env NAME [--reader ROLE]`.

Run as a role that may create schemas and extensions. With `--reader`, the role that the executor looks examples up as
is made too, a member of nothing, with the password in SIGNALBOX_READER_PASSWORD. Exit status 2: the input is
wrong, or the database can't be used.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection, sql

from services.kit.dsn import require_database
from services.kit.postgres import make_pool
from services.sql_executor.errors import EmbeddingsUnavailable
from services.sql_executor.example_file import ExampleFileError, read_example_file
from services.sql_executor.examples import ExampleStore, ExampleStoreError
from services.sql_executor.pool import APPLICATION_NAME
from services.sql_executor.settings import ExampleLoadingSettings, environment_dsn

if TYPE_CHECKING:
    from services.sql_executor.embeddings import EmbeddingsClient

OK, WRONG_INPUT = 0, 2
ROLE_EXISTS = "SELECT FROM pg_roles WHERE rolname = %s"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="load-examples", description="Few-shot examples and notes, into their store.")
    parser.add_argument("--file", type=Path, required=True, help="examples and notes (YAML)")
    parser.add_argument("--dsn-env", required=True, metavar="NAME", help="environment variable with the DSN to use")
    parser.add_argument("--reader", metavar="ROLE", help="role that looks examples up; made when missing")
    options = parser.parse_args(arguments)
    try:
        dsn = environment_dsn(options.dsn_env)
    except ValueError as error:
        parser.error(str(error))
    require_database(dsn, options.dsn_env)
    try:
        asyncio.run(_load(options.file, dsn, options.reader))
    except (ExampleFileError, ExampleStoreError, EmbeddingsUnavailable, psycopg.Error) as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG_INPUT
    return OK


async def _load(file: Path, dsn: str, reader: str | None) -> None:
    settings = ExampleLoadingSettings()
    wanted = read_example_file(file)
    embedder = _embedder(settings)
    try:
        async with make_pool(dsn, APPLICATION_NAME, prepare=False, min_size=1, max_size=2) as pool:
            if reader:
                async with pool.connection() as connection:
                    await _ensure_role(connection, reader, settings.password())
            store = ExampleStore(pool, embedder)
            await store.setup(readable_by=reader)
            report = await store.load(wanted.examples, wanted.notes)
    finally:
        if embedder is not None:
            await embedder.close()
    sys.stdout.write(f"{report.added} added, {report.removed} removed, {report.embedded} embedded\n")


def _embedder(settings: ExampleLoadingSettings) -> EmbeddingsClient | None:
    if not settings.embeddings_base_url:
        return None
    from services.sql_executor.embeddings import EmbeddingsClient

    return EmbeddingsClient(
        base_url=settings.embeddings_base_url,
        api_key=settings.embeddings_api_key.get_secret_value(),
        model=settings.embeddings_model,
        timeout_s=settings.embeddings_timeout_s,
    )


async def _ensure_role(connection: AsyncConnection[Any], role: str, password: str | None) -> None:
    name = sql.Identifier(role)
    cursor = await connection.execute(ROLE_EXISTS, [role])
    if await cursor.fetchone() is None:
        await connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT CONNECTION LIMIT 50").format(name))
    if password:
        await connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(password)))
    # As the server calls it: a pooler may have another name for it.
    cursor = await connection.execute("SELECT current_database()")
    [[database]] = await cursor.fetchall()
    await connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), name))


if __name__ == "__main__":
    sys.exit(main())
