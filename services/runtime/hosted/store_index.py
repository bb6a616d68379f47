"""By what items of a store are found by meaning: `store.index` of `langgraph.json`, as LangGraph has it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp, get_text_at_path, tokenize_path
from psycopg_pool import AsyncConnectionPool

from services.runtime.errors import StoreRefused

# Of one item; and what pgvector compares.
MOST_VECTORS: Final = 100
MOST_DIMS: Final = 16_000
# Of each part of the name by which the database has an item or a vector of it.
MOST_NAME_BYTES: Final = 500
Vector = Sequence[float]
# Notes one call of what embeds, while it is made.
Noted = Callable[[str, Sequence[str]], AbstractContextManager[None]]


@dataclass(frozen=True)
class Vectors:
    """What was embedded for some operations: texts of items, and queries."""

    texts: Mapping[str, Vector] = field(default_factory=dict)
    queries: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class StoreIndex:
    """What embeds texts, of which fields of items; `name` is what `langgraph.json` calls it.

    A store may be several graphs': vectors of other names, or of another length, are not compared.
    """

    name: str
    embeddings: Embeddings
    dims: int
    fields: tuple[str, ...] = ("$",)

    def embedded(self, texts: Sequence[str], queries: Sequence[str], noted: Noted) -> Vectors:
        """Embeds texts of items, and queries, in the thread of the caller. Raises StoreRefused."""
        found, asked = list[Vector](), list[Vector]()
        if texts:
            with noted(self.name, texts):
                found += self.embeddings.embed_documents(list(texts))
        for each in queries:
            with noted(self.name, [each]):
                asked.append(self.embeddings.embed_query(each))
        return Vectors(self._checked(texts, found), self._checked(queries, asked))

    async def aembedded(self, texts: Sequence[str], queries: Sequence[str], noted: Noted) -> Vectors:
        """Embeds texts of items, and queries. Raises StoreRefused."""
        found, asked = list[Vector](), list[Vector]()
        if texts:
            with noted(self.name, texts):
                found += await self.embeddings.aembed_documents(list(texts))
        for each in queries:
            with noted(self.name, [each]):
                asked.append(await self.embeddings.aembed_query(each))
        return Vectors(self._checked(texts, found), self._checked(queries, asked))

    def texts_of(self, op: PutOp) -> dict[str, str]:
        """Returns the texts by which an item is to be found, by field. Raises StoreRefused for what can't be kept."""
        if op.value is None or op.index is False:
            return {}
        found: dict[str, str] = {}
        for path in self.fields if op.index is None else op.index:
            # All of it, where LangGraph takes it so: by paths of the index, and not by those of a single write.
            whole = op.index is None and path == "$"
            texts = get_text_at_path(op.value, path if whole else tokenize_path(path))
            numbered = len(texts) > 1
            found |= {f"{path}.{number}" if numbered else path: text for number, text in enumerate(texts)}
        if len(found) > MOST_VECTORS:
            raise StoreRefused(f"the item {op.key!r} has {len(found)} texts to be found by; {MOST_VECTORS} is the most")
        for field_ in found:
            check_name(field_)
        return found

    def _checked(self, texts: Sequence[str], vectors: Sequence[Vector]) -> dict[str, Vector]:
        lengths = {len(each) for each in vectors}
        if len(vectors) != len(texts) or lengths - {self.dims}:
            said = f"{len(vectors)} vectors of {', '.join(map(str, sorted(lengths))) or 'no'} numbers"
            raise StoreRefused(f"`store.index` says {self.dims} numbers a text; {self.name} gave {said}")
        # As the database has them, so that what it can't hold is refused here and not with the step.
        rounded = [array("f", map(float, each)).tolist() for each in vectors]
        if not all(math.isfinite(number) for each in rounded for number in each):
            raise StoreRefused(f"{self.name} gave a vector with numbers that are none, or too large for 32 bits")
        return dict(zip(texts, rounded, strict=True))


def check_name(name: str) -> None:
    """Checks a part of the name of an item or a vector. Raises StoreRefused for one that the database does not take."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise StoreRefused(f"the store takes no halves of characters in names: {name[:40]!r}") from error
    if "\x00" in name:
        raise StoreRefused(f"the store takes no NUL in names: {name[:40]!r}")
    if size_bytes > MOST_NAME_BYTES:
        raise StoreRefused(
            f"{name[:40]!r} is longer than {MOST_NAME_BYTES} bytes, which names in the store are at most"
        )


async def compares_vectors(pool: AsyncConnectionPool[Any]) -> bool:
    """Tells whether the database has pgvector. Raises DatabaseAway."""
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT to_regtype('vector') IS NOT NULL")
        return bool(await cursor.fetchone() == (True,))
