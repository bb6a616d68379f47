"""StoreService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import asyncio
from typing import Final

from langgraph.store.base import Item
from signalbox.v1 import store_pb2, store_pb2_grpc

from services.kit.errors import InvalidRequest
from services.runtime.api.callers import Callers, Context
from services.runtime.api.wire import filter_of, struct_proto, timestamp_proto
from services.runtime.engine.pages import fitting
from services.runtime.hosted.caller_store import CallerStore
from services.runtime.hosted.schemas import plain

ITEMS_FOUND: Final = 10
NAMESPACES_LISTED: Final = 100


class StoreServicer(store_pb2_grpc.StoreServiceServicer):
    """Serves the stores of callers."""

    def __init__(self, callers: Callers, store: CallerStore) -> None:
        self._callers = callers
        self._store = store

    async def GetItem(self, request: store_pb2.GetItemRequest, context: Context) -> store_pb2.GetItemResponse:
        """Returns an item."""
        caller = self._callers.caller(context)
        found = await self._store.get(caller, request.namespace.labels, request.key, leave_ttl=request.leave_ttl)
        return store_pb2.GetItemResponse(item=_item(found))

    async def PutItem(self, request: store_pb2.PutItemRequest, context: Context) -> store_pb2.PutItemResponse:
        """Writes an item."""
        caller = self._callers.caller(context)
        ttl_s = request.ttl_s if request.HasField("ttl_s") else None
        await self._store.put(caller, request.namespace.labels, request.key, plain(request.value), ttl_s)
        return store_pb2.PutItemResponse()

    async def DeleteItem(self, request: store_pb2.DeleteItemRequest, context: Context) -> store_pb2.DeleteItemResponse:
        """Deletes an item."""
        await self._store.put(self._callers.caller(context), request.namespace.labels, request.key, None, None)
        return store_pb2.DeleteItemResponse()

    async def SearchItems(
        self, request: store_pb2.SearchItemsRequest, context: Context
    ) -> store_pb2.SearchItemsResponse:
        """Finds items."""
        found = await self._store.search(
            self._callers.caller(context),
            request.prefix.labels,
            filter_of(request.filter, "filter"),
            request.limit or ITEMS_FOUND,
            request.offset,
            leave_ttl=request.leave_ttl,
        )
        # Not on the loop, which others wait for: a message is made value by value.
        told = await asyncio.to_thread(fitting, map(_item, found))
        if len(told) < len(found):
            raise InvalidRequest(f"limit: the items are too large to be told together; ask for {len(told)}")
        return store_pb2.SearchItemsResponse(items=told)

    async def ListNamespaces(
        self, request: store_pb2.ListNamespacesRequest, context: Context
    ) -> store_pb2.ListNamespacesResponse:
        """Lists namespaces."""
        found = await self._store.namespaces(
            self._callers.caller(context),
            request.prefix.labels,
            request.suffix.labels,
            request.max_depth,
            request.limit or NAMESPACES_LISTED,
            request.offset,
        )
        return store_pb2.ListNamespacesResponse(namespaces=[store_pb2.StoreNamespace(labels=each) for each in found])


def _item(item: Item) -> store_pb2.StoreItem:
    return store_pb2.StoreItem(
        namespace=item.namespace,
        key=item.key,
        value=struct_proto(item.value),
        create_time=timestamp_proto(item.created_at),
        update_time=timestamp_proto(item.updated_at),
    )
