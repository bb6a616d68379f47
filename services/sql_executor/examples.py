"""The few-shot store: examples and business notes, and which of them are nearest to a question.

    ExampleStoreError   the database can't hold the store; the message says what is missing

It has a schema of its own, which the reader role has no right to enter. With an embeddings model, nearness is the
cosine of pgvector embeddings; without one, or while it does not answer, it is pg_trgm similarity (docs/adr/0003).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, LiteralString, Protocol

import psycopg
from pgvector import Vector
from psycopg import sql
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from services.kit.telemetry.logs import get_logger
from services.sql_executor.errors import EmbeddingsUnavailable
from services.sql_executor.example_file import ExampleEntry
from services.sql_executor.queries import load_queries

SCHEMA = "signalbox_examples"
QUESTION_LENGTH = 2_000  # characters that are compared

_QUERIES = load_queries("examples.sql")
_Connection = psycopg.AsyncConnection[Any]


class ExampleStoreError(Exception):
    """The database can't hold the example store."""


class Embedder(Protocol):
    """Turns texts into vectors; raises EmbeddingsUnavailable."""

    model: str

    async def embed(self, purpose: str, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector per text, in order."""
        ...


@dataclass(frozen=True)
class Example:
    """A question with the SQL that answers it; score 1 is the same question."""

    question: str
    sql: str
    score: float


@dataclass(frozen=True)
class Note:
    """What a word of this business means."""

    text: str
    score: float


@dataclass(frozen=True)
class Retrieved:
    """What is nearest to a question, nearest first, and how that was found."""

    examples: list[Example]
    notes: list[Note]
    method: Literal["vector", "similarity"]


@dataclass(frozen=True)
class LoadReport:
    """What a load changed."""

    added: int
    removed: int
    embedded: int


class ExampleStore:
    """Examples and notes of one database, in a schema of their own. The caller owns the pool and the embedder."""

    def __init__(
        self, pool: AsyncConnectionPool[Any], embedder: Embedder | None = None, *, schema: str = SCHEMA
    ) -> None:
        self._pool = pool
        self._embedder = embedder
        self._schema = schema
        self._extensions: dict[str, str] = {}

    async def setup(self, *, readable_by: str | None = None) -> None:
        """Creates the schema and its tables where missing; raises ExampleStoreError.

        For a migration step: the pool's role must be allowed to create schemas and the extensions pg_trgm and, with an
        embedder, vector. A role that only looks examples up, if another, is named by `readable_by`.
        """
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(_QUERIES["lock"], {"schema": self._schema})
            for name in ("create_schema", "close_schema"):
                await connection.execute(self._statement(name))
            await self._create_extension(connection, "pg_trgm")
            if self._embedder is not None:
                await self._create_extension(connection, "vector")
            await self._find_extensions(connection)
            await connection.execute(self._statement("create_entry"))
            if self._embedder is not None:
                await connection.execute(self._statement("create_embedding"))
            if readable_by is not None:
                for name in ("grant_usage", "grant_select"):
                    await connection.execute(self._statement(name, role=readable_by))

    async def load(self, examples: Sequence[ExampleEntry], notes: Sequence[str]) -> LoadReport:
        """Makes the store hold just these, and embeds what is new; raises EmbeddingsUnavailable, ExampleStoreError."""
        rows = [_row("example", each.question, each.sql) for each in examples] + [_row("note", each) for each in notes]
        columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
        values = dict(zip(("hashes", "kinds", "texts", "sqls"), map(list, columns), strict=True))
        async with self._pool.connection() as connection, connection.transaction():
            await self._find_extensions(connection)
            await connection.execute(_QUERIES["lock"], {"schema": self._schema})
            removed = await connection.execute(self._statement("remove"), {"hashes": values["hashes"]})
            added = await connection.execute(self._statement("add"), values)
        embedded = await self._embed_missing(self._embedder) if self._embedder is not None else 0
        return LoadReport(added.rowcount, removed.rowcount, embedded)

    async def nearest(self, question: str, examples: int = 3, notes: int = 2) -> Retrieved:
        """Returns the examples and notes nearest to a question; raises ExampleStoreError and psycopg errors."""
        question = question.replace("\x00", " ")[:QUESTION_LENGTH]  # Postgres takes no NUL
        if self._embedder is not None:
            try:
                (vector,) = await self._embedder.embed("embed_question", [question])
            except EmbeddingsUnavailable as error:
                get_logger().warning("examples_by_similarity", reason=str(error))
            else:
                by_vector = {
                    "embedding": Vector(vector).to_text(),
                    "dimensions": len(vector),
                    "model": self._embedder.model,
                }
                if (found := await self._retrieve("vector", by_vector, examples, notes)).examples or examples == 0:
                    return found
                get_logger().warning("examples_by_similarity", reason="no example is embedded by this model")
        return await self._retrieve("similarity", {"question": question}, examples, notes)

    async def _retrieve(
        self, method: Literal["vector", "similarity"], values: dict[str, Any], examples: int, notes: int
    ) -> Retrieved:
        async with self._pool.connection() as connection:
            if not self._extensions:
                await self._find_extensions(connection)
            cursor = connection.cursor(row_factory=tuple_row)
            await cursor.execute(
                self._statement(f"nearest_by_{method}"), {**values, "examples": examples, "notes": notes}
            )
            rows = await cursor.fetchall()
        return Retrieved(
            [Example(text, statement, score) for kind, text, statement, score in rows if kind == "example"],
            [Note(text, score) for kind, text, _, score in rows if kind == "note"],
            method,
        )

    async def _embed_missing(self, embedder: Embedder) -> int:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=tuple_row)
            await cursor.execute(self._statement("not_embedded"), {"model": embedder.model})
            missing = await cursor.fetchall()
        if not missing:
            return 0
        # No connection is held meanwhile: the model may be slow.
        vectors = await embedder.embed("embed_examples", [text for _, text in missing])
        values = {
            "model": embedder.model,
            "hashes": [content_hash for content_hash, _ in missing],
            "embeddings": [Vector(vector).to_text() for vector in vectors],
        }
        async with self._pool.connection() as connection:
            inserted = await connection.execute(self._statement("embed"), values)
        return int(inserted.rowcount)

    async def _create_extension(self, connection: _Connection, extension: str) -> None:
        try:
            await connection.execute(self._statement("create_extension", extension=extension))
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
            raise ExampleStoreError(
                f"the database has no extension {extension}: install it on the server"
                + (", or configure no embeddings endpoint" if extension == "vector" else "")
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise ExampleStoreError(
                f"this role may not create the extension {extension}: let a superuser run "
                f"CREATE EXTENSION {extension} in this database first"
            ) from error

    async def _find_extensions(self, connection: _Connection) -> None:
        cursor = connection.cursor(row_factory=tuple_row)
        await cursor.execute(_QUERIES["extensions"])
        self._extensions = dict(await cursor.fetchall())
        needed = ["pg_trgm"] + (["vector"] if self._embedder is not None else [])
        if missing := [name for name in needed if name not in self._extensions]:
            raise ExampleStoreError(f"the example store is not set up: the database lacks {' and '.join(missing)}")

    def _statement(self, name: LiteralString, **names: str) -> sql.Composed:
        known = {"schema": self._schema, "trgm": self._extensions.get("pg_trgm", ""), **names}
        known["vector"] = self._extensions.get("vector", "")
        return sql.SQL(_QUERIES[name]).format(**{key: sql.Identifier(value) for key, value in known.items()})


def _row(kind: str, text: str, statement: str | None = None) -> tuple[bytes, str, str, str | None]:
    content = "\0".join((kind, text, statement or ""))
    return hashlib.sha256(content.encode()).digest(), kind, text, statement
