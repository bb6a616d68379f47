"""The port for operators: metrics, and health for probes that cannot speak mTLS."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from socketserver import BaseServer

import pytest

from services.kit.settings import ServiceSettings
from services.kit.telemetry.metrics_port import MetricsPort
from services.kit.wire.server import Service, running
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


async def test_a_service_is_alive_while_it_starts_serves_and_drains() -> None:
    seen: list[tuple[int, str]] = []
    ports: list[str] = []

    async def look() -> None:
        seen.append(await get(ports[0], "/livez"))

    async def build(settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        ports.append(settings.metrics_listen)
        await look()
        return Service([], drain=look)

    with reserved_port() as port:
        async with running("alive", ServiceSettings(metrics_listen=f"127.0.0.1:{port}"), build):
            await look()
    assert seen == [(200, "alive\n")] * 3


async def test_a_loop_that_is_stuck_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.kit.telemetry.metrics_port.STOPPED_AFTER_S", 3.0)
    port = MetricsPort("127.0.0.1:0")
    asked = threading.Event()

    def until_stuck() -> bool:
        """Asks from outside while the loop stands still."""
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            if _get(port.address, "/livez") == (503, "stuck\n"):
                asked.set()
                return True
            time.sleep(0.1)
        return False

    try:
        # A machine that stands still for a while is no loop that is stuck: as soon as it turns, the port says so.
        async with asyncio.timeout(60):
            while await get(port.address, "/livez") != (200, "alive\n"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        asking = asyncio.get_running_loop().run_in_executor(None, until_stuck)
        asked.wait(60)  # on the loop's own thread: nothing else runs there
        assert await asking
        while (await get(port.address, "/livez"))[0] != 200:  # noqa: ASYNC110 - it turns again
            await asyncio.sleep(0.1)
    finally:
        await port.begin_close()


async def test_the_port_has_three_pages() -> None:
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
