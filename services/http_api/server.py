"""What the HTTP API is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack

from services.http_api.app import make_app
from services.http_api.event_stream import Streams
from services.http_api.gateway import Gateway
from services.http_api.settings import HttpApiSettings
from services.kit.wire.client import connect
from services.kit.wire.needs import looked_for
from services.kit.wire.web_service import WebService

NAME = "http_api"


async def build(settings: HttpApiSettings, stack: AsyncExitStack) -> WebService:
    """Puts the HTTP API together; the channel to the gateway closes with the stack."""
    channel = await stack.enter_async_context(looked_for("the gateway", connect(settings.gateway_target, settings)))
    streams = Streams(
        most=settings.max_streams, heartbeat_s=settings.heartbeat_s, send_timeout_s=settings.send_timeout_s
    )
    gateway = Gateway(channel, call_timeout_s=settings.call_timeout_s)
    app = make_app(gateway, settings, streams)
    if settings.mcp_url:
        from services.http_api.mcp_endpoint import McpEndpoint  # with what it imports, which nothing else here needs

        endpoint = McpEndpoint(gateway, channel, settings, streams)
        app.router.routes += endpoint.routes()
        await stack.enter_async_context(endpoint.running())
    return WebService(
        app,
        end_streams=streams.closing.set,
        max_connections=settings.max_connections,
        read_timeout_s=settings.read_timeout_s,
    )
