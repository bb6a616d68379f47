"""The store that hosted graphs have for a caller, as that caller reads and writes it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field
from signalbox.v1 import store_pb2
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.errors import Invalid, NotFound
from services.http_api.gateway import Gateway
from services.http_api.json_bodies import BodyReader, Json, json_of, moment, struct_of
from services.http_api.run_request import Body, read_body

MINUTE_S: Final = 60
ITEM_NOT_FOUND: Final = "ITEM_NOT_FOUND"
Namespace = Annotated[list[str], Field(max_length=20)]


class PutItemBody(Body):
    """An item to write; `ttl` is in minutes."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    index: Literal[False] | list[str] | None = None
    ttl: Annotated[float, Field(gt=0)] | None = None


class DeleteItemBody(Body):
    """An item to delete."""

    namespace: Namespace = Field(default_factory=list)
    key: str


class SearchItemsBody(Body):
    """What items to find."""

    namespace_prefix: Namespace = Field(default_factory=list)
    filter: dict[str, Any] = Field(default_factory=dict, max_length=20)
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    query: str = ""
    refresh_ttl: bool = True


class NamespacesBody(Body):
    """What namespaces to list."""

    prefix: Namespace = Field(default_factory=list)
    suffix: Namespace = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=1, le=20)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class StoreRoutes:
    """Handles what is asked of the store."""

    def __init__(self, gateway: Gateway, bodies: BodyReader) -> None:
        self._gateway = gateway
        self._bodies = bodies

    async def put(self, request: Request) -> Response:
        """Writes an item."""
        caller = self._gateway.caller(request)
        body = read_body(PutItemBody, await self._bodies.read(request))
        if body.index:
            raise Invalid("index: items are found by meaning where graphs write them; leave it out")
        asked = store_pb2.PutItemRequest(
            namespace=_namespace(body.namespace), key=body.key, value=struct_of(body.value)
        )
        if body.ttl is not None:
            asked.ttl_s = body.ttl * MINUTE_S
        await caller.call(caller.stubs.store.PutItem, asked)
        return Response(status_code=204)

    async def get(self, request: Request) -> Response:
        """Returns an item; null where there is none."""
        caller, query = self._gateway.caller(request), request.query_params
        asked = store_pb2.GetItemRequest(
            namespace=_namespace([each for each in query.get("namespace", "").split(".") if each]),
            key=query.get("key", ""),
            leave_ttl=query.get("refresh_ttl", "").lower() in ("0", "false"),
        )
        try:
            return Json(_item((await caller.call(caller.stubs.store.GetItem, asked)).item))
        except NotFound as error:
            if error.told_reason != ITEM_NOT_FOUND:
                raise
            return Json(None)

    async def delete(self, request: Request) -> Response:
        """Deletes an item, if it is there."""
        caller = self._gateway.caller(request)
        body = read_body(DeleteItemBody, await self._bodies.read(request))
        asked = store_pb2.DeleteItemRequest(namespace=_namespace(body.namespace), key=body.key)
        await caller.call(caller.stubs.store.DeleteItem, asked)
        return Response(status_code=204)

    async def search(self, request: Request) -> Response:
        """Finds items, those written last first."""
        caller = self._gateway.caller(request)
        body = read_body(SearchItemsBody, await self._bodies.read(request))
        if body.query:
            raise Invalid("query: items are found by meaning in graphs alone; search by namespace and `filter`")
        asked = store_pb2.SearchItemsRequest(
            prefix=_any_namespace(body.namespace_prefix),
            filter=struct_of(body.filter),
            limit=body.limit,
            offset=body.offset,
            leave_ttl=not body.refresh_ttl,
        )
        found = await caller.call(caller.stubs.store.SearchItems, asked)
        return Json({"items": [_item(each) for each in found.items]})

    async def namespaces(self, request: Request) -> Response:
        """Lists namespaces."""
        caller = self._gateway.caller(request)
        body = read_body(NamespacesBody, await self._bodies.read(request))
        asked = store_pb2.ListNamespacesRequest(
            prefix=_any_namespace(body.prefix),
            suffix=_any_namespace(body.suffix),
            max_depth=body.max_depth or 0,
            limit=body.limit,
            offset=body.offset,
        )
        found = await caller.call(caller.stubs.store.ListNamespaces, asked)
        return Json({"namespaces": [list(each.labels) for each in found.namespaces]})


def _namespace(labels: list[str]) -> store_pb2.StoreNamespace:
    return store_pb2.StoreNamespace(labels=labels)


def _any_namespace(labels: list[str]) -> store_pb2.StoreNamespace | None:
    return _namespace(labels) if labels else None


def _item(item: store_pb2.StoreItem) -> dict[str, Any]:
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": json_of(item.value),
        "created_at": moment(item.create_time),
        "updated_at": moment(item.update_time),
    }
