"""An HTTP server inside a program that has its own lifecycle."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn


class WebServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its program and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, and says so."""
        await super().startup(sockets)
        self.listening.set()
