"""An HTTP server inside a program that has its own lifecycle."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol


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


def prompt_http(headers_within_s: float) -> type[H11Protocol]:
    """Returns HTTP as uvicorn speaks it, but that a connection ends whose request has not its headers by then.

    After an answer uvicorn ends a connection that says nothing more. Before the first request, and amid headers, it
    waits for ever, and so a few thousand silent connections would leave no place for others.
    """

    class PromptHttp(H11Protocol):
        _awaited: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
            super().connection_made(transport)
            self._await_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._await_no_more()
            elif self._awaited is None:
                self._await_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._await_no_more()
            super().connection_lost(exc)

        def _await_headers(self) -> None:
            self._awaited = self.loop.call_later(headers_within_s, self.transport.close)

        def _await_no_more(self) -> None:
            if self._awaited is not None:
                self._awaited.cancel()
                self._awaited = None

    return PromptHttp
