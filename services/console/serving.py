"""Lifecycle of the console: from a free port to the last answer."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import uvicorn

from services.console.app import make_app
from services.console.entrance import Entrance
from services.console.gateway import Gateway
from services.console.settings import ConsoleSettings
from services.kit.wire.web_server import WebServer

# Nobody else's: who may come in is who can read this user's terminal.
HOST = "127.0.0.1"


@asynccontextmanager
async def running(
    channel: grpc.aio.Channel, address: str, token: Callable[[], str], settings: ConsoleSettings
) -> AsyncIterator[str]:
    """Serves inside the context, and yields the address to open, with the console's own token.

    `token` returns the caller's, whenever the gateway at `address` is asked. Raises OSError where the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, settings.port))
        listener.listen()
        port = listener.getsockname()[1]
        own_token = secrets.token_urlsafe(32)
        gateway = Gateway(channel, address, token, call_timeout_s=settings.call_timeout_s)
        closing = asyncio.Event()
        server = WebServer(
            uvicorn.Config(
                # Around all of it, so that also what goes wrong there is told to nobody else.
                Entrance(make_app(gateway, settings, closing), own_token, port),
                log_config=None,
                access_log=False,  # its lines would hold the token
                lifespan="off",
                server_header=False,
                ws="none",
                # What forwards to a console is nobody's business to say who asks.
                proxy_headers=False,
                timeout_graceful_shutdown=settings.shutdown_grace_s,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await server.listening.wait()
            yield f"http://{HOST}:{port}/?token={own_token}"
        finally:
            closing.set()
            server.should_exit = True
            await serving
    finally:
        listener.close()
