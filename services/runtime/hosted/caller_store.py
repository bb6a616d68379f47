"""The store that hosted graphs have for a caller, as that caller reads and writes it outside of any run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from psycopg_pool import AsyncConnectionPool

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.engine.pages import MOST_BYTES
from services.runtime.engine.retention_policy import DEFAULT
from services.runtime.engine.store_policy import StorePolicies
from services.runtime.engine.stored_items import StoreScope, put_items
from services.runtime.errors import ItemNotFound, StoreClosed
from services.runtime.hosted.session import Visit
from services.runtime.hosted.store import NO_RUN, SECONDS, NodeStore

READ, WRITE = "read", "write"
# What JSON of a value takes in six bytes, as it does control characters, takes one at least in a message: beyond this
# items found are more than an answer holds, whatever they are.
_MOST_FOUND_BYTES: Final = 6 * MOST_BYTES
_ALLOWED: Final = {"nothing": (), READ: (READ,), WRITE: (READ, WRITE)}


class CallerStore:
    """Items of callers; how much they may hold, and what callers may do, the policy of `default` says."""

    def __init__(self, pool: AsyncConnectionPool[Any], policies: StorePolicies) -> None:
        self._pool = pool
        self._policy = policies.of(DEFAULT)

    async def get(self, caller: Caller, namespace: Sequence[str], key: str, *, leave_ttl: bool) -> Item:
        """Returns an item. Raises ItemNotFound, StoreClosed, StoreRefused."""
        found: Item | None = await self._done(caller, READ, GetOp(tuple(namespace), key, not leave_ttl))
        if found is None:
            raise ItemNotFound(f"the store has no item {key[:100]!r} in {'.'.join(namespace)[:200]!r}")
        return found

    async def put(
        self, caller: Caller, namespace: Sequence[str], key: str, value: dict[str, Any] | None, ttl_s: float | None
    ) -> None:
        """Writes an item, or without a value deletes it. Raises StoreClosed, StoreRefused."""
        ttl = None if ttl_s is None else ttl_s / SECONDS
        await self._done(caller, WRITE, PutOp(tuple(namespace), key, value, ttl=ttl))

    async def search(
        self, caller: Caller, prefix: Sequence[str], wanted: dict[str, Any], limit: int, offset: int, *, leave_ttl: bool
    ) -> Sequence[Item]:
        """Returns items, those written last first; of more than an answer holds, no more than show that.

        Raises InvalidRequest, StoreClosed, StoreRefused.
        """
        op = SearchOp(tuple(prefix), wanted or None, limit, offset, refresh_ttl=not leave_ttl)
        try:
            found: Sequence[Item] = await self._done(caller, READ, op)
        except (TypeError, ValueError) as error:  # of LangGraph's own comparison
            raise InvalidRequest(f"filter: can't be compared with what the store holds: {error}") from error
        return found

    async def namespaces(
        self, caller: Caller, prefix: Sequence[str], suffix: Sequence[str], max_depth: int, limit: int, offset: int
    ) -> Sequence[Sequence[str]]:
        """Returns namespaces in order. Raises StoreClosed."""
        ends = (("prefix", prefix), ("suffix", suffix))
        conditions = tuple(MatchCondition(kind, tuple(path)) for kind, path in ends if path)  # type: ignore[arg-type]
        op = ListNamespacesOp(conditions or None, max_depth or None, limit, offset)
        found: Sequence[Sequence[str]] = await self._done(caller, READ, op)
        return found

    async def _done(self, caller: Caller, right: str, op: Op) -> Any:
        if right not in _ALLOWED[self._policy.callers]:
            raise StoreClosed(f"callers may not {right} their stores here; SIGNALBOX_STORES of the operator says so")
        scope = StoreScope("caller", caller.subject, "", caller.subject, self._policy)
        visit = Visit("")
        store = NodeStore(self._pool, scope, NO_RUN, most_bytes=_MOST_FOUND_BYTES)
        [result] = await store.perform([op], visit)
        if writes := [*visit.stored, *visit.refreshed.values()]:
            async with self._pool.connection() as connection, connection.transaction():
                await put_items(connection, scope, writes)
        return result
