"""A request that says in two ways where it ends gets one answer, and what follows it gets none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.http_api.server import NAME, build
from services.http_api.settings import HttpApiSettings
from services.kit.wire.web_service import running

ORIGIN = "https://chat.example.com"
ISSUER = "https://issuer.example.com"
BODY = b'c\r\n{"limit": 1}\r\n0\r\n\r\n'
BEHIND = b"GET /ok HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest_asyncio.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    """Where the service listens; there is no gateway."""
    settings = HttpApiSettings(
        gateway_target="ipv4:127.0.0.1:1",
        allowed_origins=(ORIGIN,),
        mcp_url="https://agents.example.com/mcp",
        mcp_authorization_servers=(ISSUER,),
    )
    async with running(NAME, settings, build) as service:
        host, _, port = service.address.rpartition(":")
        yield host, int(port)


async def heard(address: tuple[str, int], sent: bytes) -> bytes:
    """Returns what comes until the other end closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    found = bytearray()
    try:
        async with asyncio.timeout(30):
            while part := await reader.read(65536):
                found += part
    except ConnectionResetError:  # it has closed with something unread
        pass
    finally:
        writer.close()
    return bytes(found)


@pytest.mark.parametrize(
    "line",
    [
        "POST /threads/search",
        "POST /mcp",
        "GET /.well-known/oauth-protected-resource/mcp",
        "POST /nowhere",
        "PUT /threads/search",
        "OPTIONS /threads/search",
    ],
)
async def test_a_request_of_two_ends_has_one_answer(address: tuple[str, int], line: str) -> None:
    head = f"{line} HTTP/1.1\r\nhost: x\r\norigin: {ORIGIN}\r\naccess-control-request-method: POST\r\n"
    ends = "content-type: application/json\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n"
    told = await heard(address, f"{head}{ends}".encode() + BODY + BEHIND)
    assert told.count(b"HTTP/1.1 ") == 1
    assert told.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close\r\n" in told.lower()
    assert b'"reason":"AMBIGUOUS"' in told


async def test_a_request_behind_another_is_answered(address: tuple[str, int]) -> None:
    head = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    told = await heard(address, head + BODY + BEHIND)
    assert [part[:3] for part in told.split(b"HTTP/1.1 ")[1:]] == [b"404", b"200"]
