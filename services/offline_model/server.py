"""Composition root and lifecycle of the offline model server."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import uvicorn
import uvloop

from services.kit.settings import load_settings, refuse
from services.kit.telemetry.logs import configure_logs, get_logger
from services.kit.telemetry.metrics import tell_build
from services.kit.telemetry.metrics_port import MetricsPort
from services.kit.telemetry.tracing import FLUSH_TIMEOUT_MS, start_telemetry
from services.kit.text.policy_file import PolicyFileError, load_policy_file
from services.kit.wire.listening import CannotListen, listening
from services.kit.wire.ready import write_ready_file
from services.kit.wire.server import Running
from services.kit.wire.web_server import WebServer
from services.offline_model.app import make_app
from services.offline_model.settings import OfflineModelSettings
from services.offline_model.skills import make_skills
from services.offline_model.vocabulary import Vocabulary

NAME = "offline_model"
log = get_logger()


def main() -> NoReturn:
    """Runs the server until SIGTERM or SIGINT, lets requests in flight finish, and exits with status 0."""
    settings = load_settings(OfflineModelSettings)
    configure_logs(NAME, settings.log_level)
    try:
        uvloop.run(_serve(settings))
    except (CannotListen, PolicyFileError) as error:
        refuse([str(error)])
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
    tell_build(NAME, settings.revision)
    with listening("SIGNALBOX_METRICS_LISTEN", settings.metrics_listen):
        metrics = MetricsPort(settings.metrics_listen)
    with listening("SIGNALBOX_LISTEN", settings.listen):
        listener = _bind(settings.listen)
    server = WebServer(
        uvicorn.Config(
            make_app(make_skills(_vocabulary(settings)), max_request_bytes=settings.max_request_bytes),
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


def _vocabulary(settings: OfflineModelSettings) -> Vocabulary:
    file = settings.vocabulary_file
    return load_policy_file(file, Vocabulary) if file else Vocabulary()


def _bind(listen: str) -> socket.socket:
    """Binds before anything is announced, so that port 0 has a number and a taken port is an error at once."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host.strip("[]"), int(port)))
    listener.listen()
    return listener
