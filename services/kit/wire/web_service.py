"""Services that speak HTTP: their lifecycle, as `services.kit.wire.server` has that of services that speak gRPC."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import uvicorn
import uvloop

from services.kit.settings import ServiceSettings, load_settings, refuse
from services.kit.telemetry.logs import configure_logs, get_logger
from services.kit.telemetry.metrics import tell_build
from services.kit.telemetry.metrics_port import MetricsPort
from services.kit.telemetry.tracing import FLUSH_TIMEOUT_MS, start_telemetry
from services.kit.wire.certificates import LOOK_EVERY_S, Certificates
from services.kit.wire.listening import CannotListen, listening
from services.kit.wire.needs import needed_text
from services.kit.wire.ready import write_ready_file
from services.kit.wire.server import Running, serve_until_stopped
from services.kit.wire.silence import notice_silence
from services.kit.wire.web_server import WebServer, prompt_http

log = get_logger()
SettingsT = TypeVar("SettingsT", bound=ServiceSettings)


@dataclass(frozen=True)
class WebService:
    """What a composition root built: the ASGI application, and what ends its streams before the server stops.

    Beyond `max_connections`, requests are answered with 503. A connection ends where the headers of a request take
    longer than `read_timeout_s`.
    """

    app: Any
    end_streams: Callable[[], None] | None = None
    max_connections: int | None = None
    read_timeout_s: float = 30


Build = Callable[[SettingsT, AsyncExitStack], Awaitable[WebService]]


def main(
    name: str, settings_class: type[SettingsT], build: Build[SettingsT], wrong: type[Exception] = CannotListen
) -> NoReturn:
    """Runs a service until SIGTERM or SIGINT, lets requests in flight finish, and exits with status 0.

    A `wrong` that `build` raises tells what is wrong with what a setting names: it is printed, and the status is 2.
    """
    settings = load_settings(settings_class)
    configure_logs(name, settings.log_level)
    try:
        uvloop.run(serve_until_stopped(running(name, settings, build)))
    except (CannotListen, wrong) as error:
        refuse([str(error)])
    raise SystemExit(0)


@asynccontextmanager
async def running(name: str, settings: SettingsT, build: Build[SettingsT]) -> AsyncIterator[Running]:
    """Serves inside the context; on the way out: stop accepting, finish what is in flight, close, flush telemetry."""
    provider = start_telemetry(name, otlp_endpoint=settings.otlp_endpoint, sample_ratio=settings.trace_sample_ratio)
    tell_build(name, settings.revision)
    with listening("SIGNALBOX_METRICS_LISTEN", settings.metrics_listen):
        metrics = MetricsPort(settings.metrics_listen)
    try:
        async with AsyncExitStack() as stack:
            with listening("SIGNALBOX_LISTEN", settings.listen):
                listener = stack.enter_context(_bound(settings.listen))
            service = await build(settings, stack)
            server = WebServer(await _config(service, settings, stack))
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
                if service.end_streams is not None:
                    service.end_streams()
                server.should_exit = True
                await serving
    finally:
        await asyncio.gather(metrics.begin_close(), asyncio.to_thread(provider.force_flush, FLUSH_TIMEOUT_MS))


async def _config(service: WebService, settings: ServiceSettings, stack: AsyncExitStack) -> uvicorn.Config:
    config = uvicorn.Config(
        service.app,
        http=prompt_http(service.read_timeout_s),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",
        # Who asks is said by what they show, not by what stands between.
        proxy_headers=False,
        limit_concurrency=service.max_connections,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        **await _tls(settings),
    )
    config.load()
    if config.ssl is not None and (certificates := Certificates.of(settings)):
        renewing = asyncio.create_task(_renew(config.ssl, certificates, settings))
        stack.callback(renewing.cancel)
    return config


async def _tls(settings: ServiceSettings) -> dict[str, Any]:
    files = [settings.tls_cert, settings.tls_key, settings.tls_ca]
    if not all(files):
        return {}
    for file in filter(None, files):
        await needed_text(file)
    wanted = ssl.CERT_REQUIRED if settings.tls_require_client_cert else ssl.CERT_NONE
    return {
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
        "ssl_ca_certs": str(settings.tls_ca),
        "ssl_cert_reqs": wanted,
    }


async def _renew(context: ssl.SSLContext, certificates: Certificates, settings: ServiceSettings) -> None:
    """Has each new handshake show the certificate of its moment."""
    shown = certificates.current()
    while settings.tls_cert:
        await asyncio.sleep(LOOK_EVERY_S)
        if certificates.current() is shown:
            continue
        try:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
            shown = certificates.current()
        except (OSError, ssl.SSLError) as error:  # changed again meanwhile; the next look finds the whole
            log.warning("certificate not renewed", file=str(settings.tls_cert), error=str(error))


def _bound(listen: str) -> socket.socket:
    """Binds before anything is announced, so that port 0 has a number and a taken port is an error at once."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    notice_silence(listener)  # as the connections that it accepts then do
    listener.bind((host.strip("[]"), int(port)))
    listener.listen()
    return listener
