"""Composition root and lifecycle of the offline model server."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NoReturn

import uvicorn
import uvloop

from services.kit.logs import configure_logs, get_logger
from services.kit.metrics_port import MetricsPort
from services.kit.ready import write_ready_file
from services.kit.server import Running
from services.kit.settings import load_settings
from services.kit.telemetry import FLUSH_TIMEOUT_MS, start_telemetry
from services.offline_model.app import make_app
from services.offline_model.settings import OfflineModelSettings
from services.offline_model.skills import SKILLS

if TYPE_CHECKING:
    from collections.abc import Generator

NAME = "offline_model"
log = get_logger()


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `main` and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def main() -> NoReturn:
    """Runs the server until SIGTERM or SIGINT, lets requests in flight finish, and exits with status 0."""
    settings = load_settings(OfflineModelSettings)
    configure_logs(NAME, settings.log_level)
    uvloop.run(_serve(settings))
    raise SystemExit(0)


async def _serve(settings: OfflineModelSettings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with running(settings):
        await stopping.wait()
        log.info("stopping")


@asynccontextmanager
async def running(settings: OfflineModelSettings) -> AsyncIterator[Running]:
    """Serves inside the context; on the way out: stop accepting, finish what is in flight, flush telemetry."""
    provider = start_telemetry(NAME, otlp_endpoint=settings.otlp_endpoint, sample_ratio=settings.trace_sample_ratio)
    metrics = MetricsPort(settings.metrics_listen)
    listener = _bind(settings.listen)
    server = _Server(
        uvicorn.Config(
            make_app(SKILLS, max_request_bytes=settings.max_request_bytes),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.listening.wait()
        host, port = listener.getsockname()[:2]
        address = f"{host}:{port}"
        if settings.ready_file:
            write_ready_file(settings.ready_file, listen=address, metrics=metrics.address)
        log.info("serving", address=address, metrics=metrics.address)
        metrics.serving = True
        yield Running(address, metrics.address)
    finally:
        metrics.serving = False
        server.should_exit = True
        await serving
        await asyncio.gather(metrics.begin_close(), asyncio.to_thread(provider.force_flush, FLUSH_TIMEOUT_MS))


def _bind(listen: str) -> socket.socket:
    """Binds before anything is announced, so that port 0 has a number and a taken port is an error at once."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host.strip("[]"), int(port)))
    listener.listen()
    return listener
