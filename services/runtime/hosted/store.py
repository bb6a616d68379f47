"""LangGraph's store for the nodes of one claimed run, over the platform's database.

What a node writes is committed with its step or not at all: a node that fails, asks, or is run again elsewhere has
written nothing before. Reads see what the run's own tasks have written so far. Whose store it is, the run's claims say.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import orjson
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

# What a filter and a condition mean, said once: as LangGraph's own store in memory has it.
from langgraph.store.memory import _compare_values, _cosine_similarity, _does_match
from psycopg.errors import QueryCanceled
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.queries import query
from services.runtime.engine.stored_items import StoreScope, last_writes
from services.runtime.errors import StoreRefused
from services.runtime.hosted.session import Visit, current_visit
from services.runtime.hosted.store_index import StoreIndex, Vector, Vectors, check_name
from services.runtime.routing.recorder import ItemWrite

MOST_FOUND: Final = 1000
SECONDS = 60.0
_TOO_LONG: Final = "the search took longer than the database allows; search below a narrower namespace, or hold less"
Place = tuple[str, str]
Found = TypeVar("Found")


class _Row(NamedTuple):
    namespace: str
    key: str
    value: bytes
    ttl_s: float | None
    created_at: datetime
    updated_at: datetime
    score: float | None = None


@dataclass(frozen=True)
class _Candidate:
    """What a search looks at: what is stored, or what the run itself has written."""

    score: float | None
    of: _Row | ItemWrite

    @property
    def row(self) -> _Row | None:
        return self.of if isinstance(self.of, _Row) else None

    @property
    def size_bytes(self) -> int:
        value = self.of.value if isinstance(self.of, _Row) else self.of["value"]
        return len(value or b"")

    @property
    def nearness(self) -> float:
        return -math.inf if self.score is None else self.score

    def item(self) -> SearchItem:
        fields = _fields(self.of) if isinstance(self.of, _Row) else _written(self.of, None)
        return SearchItem(**fields, score=self.score)


class _Put(NamedTuple):
    """A write, and the texts by which the item is to be found, by field."""

    write: ItemWrite
    texts: dict[str, str]


class _Asked(NamedTuple):
    """Operations, and what they write: each item once, as the last of them has it."""

    ops: list[Op]
    puts: list[_Put]

    @property
    def texts(self) -> list[str]:
        return list(dict.fromkeys(text for put in self.puts for text in put.texts.values()))

    @property
    def queries(self) -> list[str]:
        return list(dict.fromkeys(op.query for op in self.ops if isinstance(op, SearchOp) and op.query))

    @property
    def to_embed(self) -> bool:
        return bool(self.texts or self.queries)


class Session(Protocol):
    """What a store needs of the run that it is of: what its tasks have written, and how its graph has it."""

    @property
    def stored(self) -> Iterable[ItemWrite]: ...
    @property
    def store_index(self) -> StoreIndex | None: ...
    @property
    def store_ttl(self) -> TTLConfig | None: ...
    def embedding(self, name: str, texts: Sequence[str]) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class _NoRun:
    stored: tuple[ItemWrite, ...] = ()
    store_index: StoreIndex | None = None
    store_ttl: TTLConfig | None = None

    def embedding(self, name: str, texts: Sequence[str]) -> AbstractContextManager[None]:
        raise LookupError(f"who has no run embeds nothing: {name}, {len(texts)} texts")


# For who has no run: nothing was written before, and nothing is found by meaning.
NO_RUN: Final = _NoRun()


class NodeStore(BaseStore):
    """The store of one claimed run of a hosted graph."""

    supports_ttl = True

    def __init__(
        self, pool: AsyncConnectionPool[Any], scope: StoreScope, session: Session, *, most_bytes: float = math.inf
    ) -> None:
        """A search reads no further than the item with which the values of those found are above `most_bytes`."""
        self._pool = pool
        self._scope = scope
        self._session = session
        self._most_bytes = most_bytes
        self._index = session.store_index
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self.ttl_config: TTLConfig | None = session.store_ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Does what a node that is no coroutine asks for. Raises StoreRefused."""
        if _running_loop() is self._loop:
            raise StoreRefused("a node that is a coroutine asks its store by `await store.aget(…)`, `aput`, `asearch`")
        asked, visit = self._asked(ops), current_visit()
        vectors = Vectors()
        if self._index and asked.to_embed:
            if asked.puts:
                self._elsewhere(self._check(asked.puts, visit)).result()
            # Here and not on the loop: what embeds may block, as the node does.
            vectors = self._index.embedded(asked.texts, asked.queries, self._session.embedding)
        return self._elsewhere(self._done(asked, visit, vectors)).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Does what a node asks for; reads come before writes. Raises StoreRefused."""
        asked, visit = self._asked(ops), current_visit()
        vectors = Vectors()
        if self._index and asked.to_embed:
            if asked.puts:
                await self._here(self._check(asked.puts, visit))
            vectors = await self._index.aembedded(asked.texts, asked.queries, self._session.embedding)
        return await self._here(self._done(asked, visit, vectors))

    async def perform(self, ops: Iterable[Op], visit: Visit) -> list[Result]:
        """Does what is asked for without looking for meaning; `visit` has what there is to write then."""
        return await self._done(self._asked(ops), visit, Vectors())

    async def _here(self, doing: Coroutine[Any, Any, Found]) -> Found:
        if _running_loop() is self._loop:
            return await doing
        return await asyncio.wrap_future(self._elsewhere(doing))

    def _elsewhere(self, doing: Coroutine[Any, Any, Found]) -> Future[Found]:
        return asyncio.run_coroutine_threadsafe(doing, self._loop)

    def _asked(self, ops: Iterable[Op]) -> _Asked:
        """Returns what operations come to. Raises StoreRefused for what nothing more need be known of."""
        given, puts = list(ops), dict[Place, _Put]()
        for op in given:
            match op:
                case PutOp():
                    put = self._put(op)
                    puts[put.write["namespace"], put.write["key"]] = put
                case SearchOp() if not 0 <= op.limit <= MOST_FOUND or op.offset < 0:
                    raise StoreRefused(f"a search finds at most {MOST_FOUND} items, from an offset of 0 or more")
                case SearchOp():
                    check_name(".".join(op.namespace_prefix))
                case GetOp() | ListNamespacesOp():
                    pass
                case _:
                    raise StoreRefused(f"the store does not know {type(op).__name__}")
        return _Asked(given, list(puts.values()))

    async def _done(self, asked: _Asked, visit: Visit | None, vectors: Vectors) -> list[Result]:
        results: list[Result] = []
        for op in asked.ops:
            match op:
                case GetOp():
                    results.append(await self._get(op, visit))
                case SearchOp():
                    results.append(await self._search(op, visit, vectors.queries.get(op.query or "")))
                case ListNamespacesOp():
                    results.append(await self._namespaces(op))
                case _:
                    results.append(None)
        if asked.puts:
            # Once more, as time has passed; nothing else happens between this and the writing.
            visit = await self._check(asked.puts, visit)
            visit.stored += [self._embedded(put, vectors) for put in asked.puts]
        return results

    async def _get(self, op: GetOp, visit: Visit | None) -> Item | None:
        place = _place(op.namespace, op.key)
        written = last_writes(self._session.stored).get(place)
        if written is not None and written["value"] is None:
            return None
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(_Row))
            parameters = {**self._scope.parameters, "namespace": place[0], "key": place[1]}
            await cursor.execute(query("stored_item"), parameters)
            row = await cursor.fetchone()
        if written is not None:
            return Item(**_written(written, row.created_at if row else None))
        if row is None:
            return None
        self._refresh([row] if op.refresh_ttl else [], visit)
        return Item(**_fields(row))

    async def _search(self, op: SearchOp, visit: Visit | None, near: Vector | None) -> list[SearchItem]:
        """`near` is the vector of what is asked for, where items are found by meaning."""
        shown: list[SearchItem] = []
        size_bytes, passed_over = 0, 0
        # None that is not shown is kept, and none behind the last is read: a store may be large.
        async with aclosing(self._below(".".join(op.namespace_prefix), near)) as found:
            while len(shown) < op.limit and size_bytes <= self._most_bytes and (each := await anext(found, None)):
                is_passed_over = passed_over < op.offset
                if not op.filter and is_passed_over:
                    passed_over += 1
                    continue
                item = each.item()
                await asyncio.sleep(0)  # others have their turn between two values
                if not _fits(op, item):
                    continue
                if is_passed_over:
                    passed_over += 1
                    continue
                shown.append(item)
                size_bytes += each.size_bytes
                self._refresh([each.row] if op.refresh_ttl and each.row else [], visit)
        return shown

    async def _below(self, prefix: str, near: Vector | None) -> AsyncGenerator[_Candidate]:
        """Yields what is below a namespace, the nearest or else what was written last first."""
        writes = last_writes(self._session.stored)
        own = [
            _Candidate(_score(write, near), write)
            for (namespace, _), write in writes.items()
            if write["value"] is not None and f"{namespace}.".startswith(f"{prefix}." if prefix else "")
        ]
        # The next is the last of them.
        if near is not None:
            own.sort(key=lambda each: each.nearness)
        async with aclosing(self._rows(prefix, near)) as rows:
            async for row in rows:
                stored = _Candidate(row.score, row)
                while own and (near is None or own[-1].nearness >= stored.nearness):
                    yield own.pop()
                if (row.namespace, row.key) not in writes:
                    yield stored
        while own:
            yield own.pop()

    async def _rows(self, prefix: str, near: Vector | None) -> AsyncGenerator[_Row]:
        """Yields the items below a namespace, the nearest or else those written last first, a page at a time."""
        name, more = "stored_items", dict[str, Any]()
        if near is not None and self._index is not None:
            name, more = "nearest_items", {"near": list(near), "embed": self._index.name, "dims": self._index.dims}
        async with self._pool.connection() as connection:
            try:
                async with (
                    connection.transaction(),
                    connection.cursor(name="stored_items", row_factory=class_row(_Row)) as cursor,
                ):
                    await cursor.execute(query(name), {**self._scope.parameters, "prefix": prefix, **more})
                    async for row in cursor:
                        yield row
            except QueryCanceled as error:
                # The database is there, and would take as long the next time.
                raise StoreRefused(_TOO_LONG) from error

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        places = await self._places()
        namespaces = {tuple(namespace.split(".")) for namespace, _ in places}
        fitting = {each for each in namespaces if all(_does_match(part, each) for part in op.match_conditions or ())}
        if op.max_depth is not None:
            fitting = {each[: op.max_depth] for each in fitting}
        return sorted(fitting)[op.offset : op.offset + op.limit]

    async def _places(self) -> set[Place]:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("stored_keys"), self._scope.parameters)
            places: set[Place] = {(namespace, key) for namespace, key in await cursor.fetchall()}
        for place, write in last_writes(self._session.stored).items():
            (places.add if write["value"] is not None else places.discard)(place)
        return places

    async def _check(self, puts: Sequence[_Put], visit: Visit | None) -> Visit:
        """Returns the task that writes, while there is nothing against it. Raises StoreRefused."""
        policy = self._scope.policy
        if any(put.texts for put in puts) and not await self._has_room_for_vectors(puts):
            most = f"{policy.most_vectors} vectors by which items are found"
            raise StoreRefused(f"the store of this {self._scope.scope} holds at most {most}; delete some items first")
        added = {(each["namespace"], each["key"]) for each, _ in puts if each["value"] is not None}
        if added and not await self._has_room(added):
            most = f"{policy.most_items} items"
            raise StoreRefused(f"the store of this {self._scope.scope} holds at most {most}; delete some first")
        # A task that has its record takes nothing more along.
        if visit is None or visit.record is not None:
            raise StoreRefused("the store takes writes of nodes while they run; this one comes from outside of any")
        if len(visit.stored) + len(puts) > policy.most_writes:
            raise StoreRefused(f"the node {visit.node!r} writes more than {policy.most_writes} times to its store")
        return visit

    async def _has_room(self, added: set[Place]) -> bool:
        most = self._scope.policy.most_items
        async with self._pool.connection() as connection:
            parameters = {**self._scope.parameters, "most": most + 1}
            cursor = await connection.execute(query("stored_count"), parameters)
            row = await cursor.fetchone()
        count = row[0] if row else 0
        if count + len(last_writes(self._session.stored)) + len(added) <= most:
            return True
        # Near the end of it: which are there already, and which are deleted.
        places = await self._places()
        return added <= places or len(places | added) <= most

    async def _has_room_for_vectors(self, puts: Sequence[_Put]) -> bool:
        most = self._scope.policy.most_vectors
        counts = {place: len(each.get("vectors", ())) for place, each in last_writes(self._session.stored).items()}
        counts |= {(each["namespace"], each["key"]): len(texts) for each, texts in puts}
        if (count := sum(counts.values())) > most:
            return False
        async with self._pool.connection() as connection:
            namespaces, keys = zip(*counts, strict=True)
            parameters = {"namespaces": list(namespaces), "keys": list(keys), "most": most + 1}
            cursor = await connection.execute(query("stored_vector_count"), {**self._scope.parameters, **parameters})
            row = await cursor.fetchone()
        return count + (row[0] if row else 0) <= most

    def _put(self, op: PutOp) -> _Put:
        namespace, key = _place(op.namespace, op.key)
        value, texts = None, dict[str, str]()
        if op.value is not None:
            try:
                value = orjson.dumps(op.value)
            except TypeError as error:
                raise StoreRefused(f"the store holds JSON, and the value of {op.key!r} is none: {error}") from error
            if len(value) > (most := self._scope.policy.most_value_bytes):
                raise StoreRefused(f"the value of {op.key!r} is {len(value)} bytes of JSON; {most} is the most")
            if self._index:
                # Of what is kept, whatever becomes of the node's own object meanwhile.
                texts = self._index.texts_of(op._replace(value=_value(value)))
        ttl_s = None if op.ttl is None else op.ttl * SECONDS
        number = next(self._numbers)
        write = ItemWrite(number=number, namespace=namespace, key=key, value=value, ttl_s=ttl_s, refresh=False)
        return _Put(write, texts)

    def _embedded(self, put: _Put, vectors: Vectors) -> ItemWrite:
        if self._index and put.texts:
            put.write["embed"] = self._index.name
            put.write["vectors"] = {name: list(vectors.texts[text]) for name, text in put.texts.items()}
        return put.write

    def _refresh(self, rows: Iterable[_Row], visit: Visit | None) -> None:
        """Has items with a time to live last it anew, once the task that reads them has ended."""
        for row in rows:
            if row.ttl_s is not None and visit is not None:
                write = ItemWrite(
                    number=next(self._numbers),
                    namespace=row.namespace,
                    key=row.key,
                    value=None,
                    ttl_s=row.ttl_s,
                    refresh=True,
                )
                visit.refreshed[row.namespace, row.key] = write


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _place(namespace: tuple[str, ...], key: str) -> Place:
    """Returns where an item is. Raises StoreRefused for names that can't be."""
    labels = [*namespace, key]
    if not namespace or not all(isinstance(each, str) and each for each in labels):
        raise StoreRefused("namespace and key of an item are texts, none of them empty")
    if any("." in label for label in namespace):
        raise StoreRefused("labels of a namespace hold no points")
    joined = ".".join(namespace)
    check_name(joined)
    check_name(key)
    return joined, key


def _fits(op: SearchOp, item: SearchItem) -> bool:
    wanted = (op.filter or {}).items()
    return all(_compare_values(item.value.get(name), value) for name, value in wanted)


def _score(write: ItemWrite, near: Vector | None) -> float | None:
    """Returns how near the nearest vector of an item is, as the database would."""
    if near is None or not any(near):
        return None
    return max(_cosine_similarity(list(near), list(write.get("vectors", {}).values())), default=None)


def _value(stored: bytes) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(stored)
    return value


def _fields(row: _Row) -> dict[str, Any]:
    return {
        "namespace": tuple(row.namespace.split(".")),
        "key": row.key,
        "value": _value(row.value),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _written(write: ItemWrite, created_at: datetime | None) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "namespace": tuple(write["namespace"].split(".")),
        "key": write["key"],
        "value": _value(write["value"] or b"{}"),
        "created_at": created_at or now,
        "updated_at": now,
    }
