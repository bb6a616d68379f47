"""Services that speak HTTP wait only so long for a request's headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.kit.settings import ServiceSettings
from services.kit.wire.web_service import WebService, running

HEADERS_WITHIN_S = 0.3
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def slow(_request: Request) -> Response:
    """Takes longer to answer than headers may."""
    await asyncio.sleep(HEADERS_WITHIN_S * 3)
    return Response("done")


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> WebService:
    return WebService(Starlette(routes=[Route("/", slow)]), read_timeout_s=HEADERS_WITHIN_S)


@pytest_asyncio.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    """Where such a service listens."""
    async with running("offline_model", ServiceSettings(), build) as service:
        host, _, port = service.address.rpartition(":")
        yield host, int(port)


async def heard(address: tuple[str, int], *sent: bytes) -> bytes:
    """Returns what comes until the other end closes, which is asked again and again to wait."""
    reader, writer = await asyncio.open_connection(*address)
    for each in sent:
        writer.write(each)

    async def trickle() -> None:
        with suppress(OSError):
            while not writer.is_closing():
                await asyncio.sleep(HEADERS_WITHIN_S / 10)
                if sent and not sent[-1].endswith(b"\r\n\r\n"):
                    writer.write(b"x")

    trickling = asyncio.ensure_future(trickle())
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        trickling.cancel()
        writer.close()


async def test_a_connection_that_says_nothing_ends(address: tuple[str, int]) -> None:
    assert await heard(address) == b""


async def test_headers_that_never_end_end_the_connection(address: tuple[str, int]) -> None:
    assert await heard(address, REQUEST[:-2] + b"trickled: ") == b""


async def test_an_answer_may_take_longer_than_headers(address: tuple[str, int]) -> None:
    async with asyncio.timeout(30):
        assert (await heard(address, REQUEST)).endswith(b"done")


async def test_headers_of_a_later_request_are_waited_for_as_long(address: tuple[str, int]) -> None:
    told = await heard(address, REQUEST, REQUEST[:20] + b"\r\ntrickled: ")
    assert told.count(b"HTTP/1.1 ") == 1
