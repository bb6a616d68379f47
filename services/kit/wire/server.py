"""From settings to a serving process, and back down in order."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.kit.settings import ServiceSettings, load_settings, refuse
from services.kit.telemetry.logs import configure_logs, get_logger
from services.kit.telemetry.metrics import tell_build
from services.kit.telemetry.metrics_port import MetricsPort
from services.kit.telemetry.tracing import FLUSH_TIMEOUT_MS, start_telemetry
from services.kit.wire.certificates import Certificates, server_credentials
from services.kit.wire.interceptor import CallInterceptor, count_from_zero
from services.kit.wire.listening import CannotListen, listening
from services.kit.wire.needs import needed_text
from services.kit.wire.ready import write_ready_file
from services.kit.wire.reflection import enable_reflection
from services.kit.wire.silence import GRPC_OPTIONS

log = get_logger()
# What a call leaves in cycles is little, and not worth looking for every 700 objects, which is the default.
COLLECT_AFTER_OBJECTS = 20_000
# Calls that have arrived and not begun; none of them is read before that.
MAX_PENDING_CALLS = 100_000
SettingsT = TypeVar("SettingsT", bound=ServiceSettings)


@dataclass(frozen=True)
class Registration:
    """A servicer, how to add it to a server, and its full proto name."""

    add: Callable[[Any, grpc.aio.Server], None]
    servicer: object
    name: str


@dataclass(frozen=True)
class Service:
    """What a composition root built: the servicers, and how to let go of work in flight before the server stops."""

    registrations: Sequence[Registration]
    drain: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Running:
    """A service that serves."""

    address: str
    metrics_address: str


Build = Callable[[SettingsT, AsyncExitStack], Awaitable[Service]]


def main(name: str, settings_class: type[SettingsT], build: Build[SettingsT]) -> NoReturn:
    """Runs a service until SIGTERM or SIGINT, then drains it and exits with status 0."""
    settings = load_settings(settings_class)
    name = settings.name_of(name)
    configure_logs(name, settings.log_level)
    try:
        uvloop.run(serve_until_stopped(running(name, settings, build)))
    except CannotListen as error:
        refuse([str(error)])
    raise SystemExit(0)


async def serve_until_stopped(service: AbstractAsyncContextManager[Running]) -> None:
    """Has a service serve until SIGTERM or SIGINT, which also end the start of one that does not serve yet."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()

    def stop() -> None:
        stopping.set()
        if starting is not None:
            starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        async with service:
            starting = None
            _spare_what_stays()
            await stopping.wait()
            log.info("stopping")
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        log.info("stopped before it served")


@asynccontextmanager
async def running(name: str, settings: SettingsT, build: Build[SettingsT]) -> AsyncIterator[Running]:
    """Serves inside the context; on the way out: NOT_SERVING, drain, stop the server, close what was built, flush."""
    provider = start_telemetry(name, otlp_endpoint=settings.otlp_endpoint, sample_ratio=settings.trace_sample_ratio)
    tell_build(name, settings.revision)
    with listening("SIGNALBOX_METRICS_LISTEN", settings.metrics_listen):
        metrics = MetricsPort(settings.metrics_listen)
    try:
        async with AsyncExitStack() as stack:
            server = _make_server(settings)
            checks = health.aio.HealthServicer()
            await checks.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
            for file in filter(None, (settings.tls_cert, settings.tls_key, settings.tls_ca)):
                await needed_text(file)
            health_pb2_grpc.add_HealthServicer_to_server(checks, server)
            service = await build(settings, stack)
            address = _register(server, service, settings)
            await server.start()
            await _tell(checks, service, health_pb2.HealthCheckResponse.SERVING)
            metrics.serving = True
            if settings.ready_file:
                write_ready_file(settings.ready_file, listen=address, metrics=metrics.address)
            log.info("serving", address=address, metrics=metrics.address)
            try:
                yield Running(address, metrics.address)
            finally:
                metrics.serving = False
                await checks.enter_graceful_shutdown()
                if service.drain:
                    await service.drain()
                await server.stop(settings.shutdown_grace_s)
                metrics.begin_close()  # while what was built is closed too
    finally:
        await asyncio.gather(metrics.begin_close(), asyncio.to_thread(provider.force_flush, FLUSH_TIMEOUT_MS))


def _spare_what_stays() -> None:
    """Keeps the garbage collector from walking, for as long as the process lives, what start-up has made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


def _make_server(settings: ServiceSettings) -> grpc.aio.Server:
    return grpc.aio.server(
        interceptors=[CallInterceptor()],
        options=[
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.max_send_message_length", settings.max_message_bytes),
            *GRPC_OPTIONS,
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
            # Clients connect anew and look where, every few seconds: that is how new replicas get their share.
            ("grpc.max_connection_age_ms", int(settings.max_connection_age_s * 1000)),
            ("grpc.max_connection_age_grace_ms", int(settings.connection_grace_s * 1000)),
            # By itself gRPC breaks off some of a thousand calls that arrive at once, with a bare CANCELLED. What is too
            # much is for the service to say.
            ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
            ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_CALLS),
            # Two processes on one port would share its calls without a word.
            ("grpc.so_reuseport", 0),
        ],
    )


def _register(server: grpc.aio.Server, service: Service, settings: ServiceSettings) -> str:
    for registration in service.registrations:
        registration.add(registration.servicer, server)
        count_from_zero(registration.name)
    names = [registration.name for registration in service.registrations]
    enable_reflection([*names, health.SERVICE_NAME], server)
    host = settings.listen.rpartition(":")[0]
    certificates = Certificates.of(settings)
    with listening("SIGNALBOX_LISTEN", settings.listen):
        if certificates is None:
            return f"{host}:{server.add_insecure_port(settings.listen)}"
        credentials = server_credentials(certificates, require_client_cert=settings.tls_require_client_cert)
        return f"{host}:{server.add_secure_port(settings.listen, credentials)}"


async def _tell(checks: Any, service: Service, status: Any) -> None:
    for name in ["", *(registration.name for registration in service.registrations)]:
        await checks.set(name, status)
