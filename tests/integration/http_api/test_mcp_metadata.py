"""Whose tokens `/mcp` takes is told where clients are sent for it (RFC 9728)."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest

from services.http_api.server import NAME, build
from services.http_api.settings import HttpApiSettings
from services.kit.wire.web_service import running

ISSUER = "https://issuer.example.com"


@pytest.mark.parametrize("url", ["https://agents.example.com/mcp", "https://example.com/agents/of/us/mcp"])
async def test_it_is_served_where_it_is_announced(url: str) -> None:
    settings = HttpApiSettings(gateway_target="ipv4:127.0.0.1:1", mcp_url=url, mcp_authorization_servers=(ISSUER,))
    async with (
        running(NAME, settings, build) as service,
        httpx.AsyncClient(base_url=f"http://{service.address}", timeout=30) as http,
    ):
        refused = await http.post("/mcp", json={})
        announced = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        told = await http.get(urlsplit(announced).path)
    assert (refused.status_code, told.status_code) == (401, 200)
    assert urlsplit(announced).netloc == urlsplit(url).netloc
    assert (told.json()["resource"], told.json()["authorization_servers"]) == (url, [ISSUER])
