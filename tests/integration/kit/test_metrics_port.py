"""The port for operators: metrics, and health for probes that cannot speak mTLS."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from socketserver import BaseServer

import pytest

from services.kit.metrics_port import MetricsPort
from services.kit.server import Service, running
from services.kit.settings import ServiceSettings
from tests.fixtures.ports import reserved_port


def _get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - always http
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    return await asyncio.to_thread(_get, address, path, method)


async def test_health_in_plain_http_is_that_of_the_service() -> None:
    seen: dict[str, tuple[int, str]] = {}
    ports: list[str] = []

    async def build(settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        seen["starting"] = await get(settings.metrics_listen, "/healthz")
        return Service([], drain=drain)

    async def drain() -> None:
        seen["draining"] = await get(ports[0], "/healthz")

    with reserved_port() as port:
        settings = ServiceSettings(metrics_listen=f"127.0.0.1:{port}")
        async with running("healthy", settings, build) as service:
            ports.append(service.metrics_address)
            seen["serving"] = await get(service.metrics_address, "/healthz")
            status, text = await get(service.metrics_address, "/metrics")
            assert (status, "signalbox_" in text) == (200, True)
        assert seen == {
            "starting": (503, "not serving\n"),
            "serving": (200, "serving\n"),
            "draining": (503, "not serving\n"),
        }
        with pytest.raises(urllib.error.URLError):
            await get(ports[0], "/healthz")


async def test_the_port_has_two_pages() -> None:
    port = MetricsPort("127.0.0.1:0")
    try:
        assert (await get(port.address, "/"))[0] == 404
        assert (await get(port.address, "/healthz", "POST"))[0] == 405
        assert (await get(port.address, "/metrics", "POST"))[0] == 405
        assert (await get(port.address, "/healthz?full=1"))[0] == 503
    finally:
        await port.begin_close()


async def test_closing_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_went_on, shut_down = threading.Event(), BaseServer.shutdown

    def shut_down_meanwhile(server: BaseServer) -> None:
        assert loop_went_on.wait(60), "the loop waits for the port to close"
        shut_down(server)

    monkeypatch.setattr(BaseServer, "shutdown", shut_down_meanwhile)
    closing = MetricsPort("127.0.0.1:0").begin_close()
    await asyncio.sleep(0)  # it is under way now
    loop_went_on.set()
    await closing


async def test_a_port_is_closed_once() -> None:
    port = MetricsPort("127.0.0.1:0")
    assert port.begin_close() is port.begin_close()
    await port.begin_close()


async def test_a_taken_port_is_an_error_at_once() -> None:
    port = MetricsPort("127.0.0.1:0")
    try:
        with pytest.raises(OSError, match="in use"):
            MetricsPort(port.address)
    finally:
        await port.begin_close()
