"""A console over a gateway that does what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import httpx
import pytest

from services.console.serving import running
from services.console.settings import ConsoleSettings
from tests.fixtures.walked_run import explained
from tests.integration.console.fake_gateway import FakeGateway, fake_gateway, serving

CALLERS_TOKEN = "callers.own.token"
QUICK = ConsoleSettings(call_timeout_s=10, answer_poll_s=0.05, gateway_retry_s=0.05)
# A gateway that is away is found again at once.
OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)]


@dataclass(frozen=True)
class Console:
    """A console that serves: the address that it prints, and the one without the token."""

    address: str

    @property
    def base(self) -> str:
        """Its origin."""
        return self.address.partition("/?")[0]

    @property
    def token(self) -> str:
        """Its own token."""
        return self.address.partition("token=")[2]

    def stranger(self) -> httpx.AsyncClient:
        """A browser that has shown nothing yet."""
        return httpx.AsyncClient(base_url=self.base, timeout=30)

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        """A browser that has come in, and says where its forms come from, as browsers do."""
        async with self.stranger() as client:
            assert (await client.get("/", params={"token": self.token})).status_code == 303
            client.headers["origin"] = self.base
            yield client


@asynccontextmanager
async def console_over(port: int, settings: ConsoleSettings = QUICK) -> AsyncIterator[Console]:
    """Serves a console over the gateway at a port."""
    address = f"127.0.0.1:{port}"
    async with (
        grpc.aio.insecure_channel(address, options=OPTIONS) as channel,
        running(channel, address, lambda: CALLERS_TOKEN, settings) as entrance,
    ):
        yield Console(entrance)


@pytest.fixture
def gateway() -> FakeGateway:
    return fake_gateway(explained(asks="Go on?"))


@pytest.fixture
async def console(gateway: FakeGateway) -> AsyncIterator[Console]:
    async with serving(gateway) as port, console_over(port) as served:
        yield served


@pytest.fixture
async def inside(console: Console) -> AsyncIterator[httpx.AsyncClient]:
    async with console.browser() as client:
        yield client
