"""Streams of services behind the gateway while callers read them, and how they end when the gateway shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from services.gateway.errors import Draining

RETRY_AFTER_S = 0.1


class OpenStreams:
    """The streams of one service; `told` is what their callers hear at the end, and is to say how to go on."""

    def __init__(self, told: str) -> None:
        self._told = told
        self._calls: set[grpc.aio.UnaryStreamCall[Any, Any]] = set()
        self._draining = False

    def drain(self) -> None:
        """Ends every open stream with Draining, for its caller to go on at another gateway."""
        self._draining = True
        for call in list(self._calls):
            call.cancel()

    def check(self) -> None:
        """Raises Draining where no stream is to be begun any more."""
        if self._draining:
            raise self._ended()

    @contextmanager
    def reading(self, call: grpc.aio.UnaryStreamCall[Any, Any]) -> Iterator[None]:
        """Holds a stream while it is read, and cancels it then. Raises Draining where the gateway ended it."""
        self._calls.add(call)
        try:
            yield
        except asyncio.CancelledError:
            if self._draining:
                raise self._ended() from None
            raise
        finally:
            self._calls.discard(call)
            call.cancel()

    def _ended(self) -> Draining:
        return Draining(self._told, retry_after_s=RETRY_AFTER_S)
