"""Lists that come in pages, read to their end or to a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

# The most that every list of the contract gives in one page.
PAGE_SIZE = 500
ResponseT = TypeVar("ResponseT", bound=Message)


async def pages(
    call: Callable[[Any], Awaitable[ResponseT]],
    request: Any,
    items: str,
    *,
    limit: int | None = None,
    size: int = PAGE_SIZE,
) -> AsyncIterator[ResponseT]:
    """Yields pages until the last one, or until they hold as many `items`, which is a field's name, as the limit says.

    None has more than `size`.

    The request is changed: it asks for one page after the other.
    """
    read_count = 0
    has_size = "page_size" in request.DESCRIPTOR.fields_by_name
    while limit is None or read_count < limit:
        if has_size:
            request.page_size = min(size, PAGE_SIZE, limit - read_count if limit is not None else PAGE_SIZE)
        page: Any = await call(request)
        yield page
        read_count += len(getattr(page, items))
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def listed(
    call: Callable[[Any], Awaitable[ResponseT]], request: Any, items: str, *, limit: int | None = None
) -> list[Any]:
    """Returns the `items` of all pages, up to a limit."""
    return [item async for page in pages(call, request, items, limit=limit) for item in getattr(page, items)]
