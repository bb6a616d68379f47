"""A database's disk that is full: a small one of its own where one may be mounted, or else what Postgres says then."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

SIZE_MIB = 192
SERVER_USER = "nobody"
# What Postgres says to whoever writes when its disk is full, and only then; what is there can be read.
_FILL = """
    CREATE FUNCTION platform.has_no_room() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
    DO $$ DECLARE place regclass; BEGIN
        FOR place IN
            SELECT oid FROM pg_class
            WHERE relnamespace = 'platform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        LOOP
            EXECUTE 'CREATE TRIGGER has_no_room BEFORE INSERT OR UPDATE ON ' || place
                || ' EXECUTE FUNCTION platform.has_no_room()';
        END LOOP;
    END $$
"""
_FREE = "DROP FUNCTION platform.has_no_room() CASCADE"


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A directory of the server's on a small file system; None where nothing may be mounted."""
    with TemporaryDirectory(prefix="signalbox-disk-") as name:
        place = Path(name)
        place.chmod(0o755)
        if not _mounted(place):
            yield None
            return
        try:
            databases = place / "databases"
            databases.mkdir()
            shutil.chown(databases, SERVER_USER)
            yield databases
        finally:
            subprocess.run(["umount", name], check=True)


def _mounted(place: Path) -> bool:
    """Mounts a small file system; says whether that is allowed here."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=0755", "tmpfs", str(place)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


async def make_databases_there(cluster_dsn: str, databases: Path) -> None:
    """Has a cluster make its databases on another disk from now on; its log stays where it is."""
    async with await psycopg.AsyncConnection.connect(cluster_dsn, autocommit=True) as connection:
        await connection.execute(f"CREATE TABLESPACE small_disk LOCATION '{databases}'".encode())
        await connection.execute("ALTER DATABASE template1 SET TABLESPACE small_disk")


@asynccontextmanager
async def filled(databases: Path) -> AsyncIterator[None]:
    """Takes what room is left on a small disk."""
    filler = databases.parent / "filler"
    try:
        await asyncio.to_thread(_fill, filler)
        yield
    finally:
        filler.unlink()


def _fill(filler: Path) -> None:
    size_bytes = 1 << 20
    with filler.open("wb", buffering=0) as file:
        while size_bytes:
            try:
                file.write(bytes(size_bytes))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size_bytes //= 2


@asynccontextmanager
async def tables_full(dsn: str) -> AsyncIterator[None]:
    """The tables of the platform's database take nothing more."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(_FILL)
        try:
            yield
        finally:
            await connection.execute(_FREE)
