"""The port for operators, in plain HTTP: /metrics for Prometheus, and two pages for probes.

/healthz says whether the service takes calls: the readiness of whoever can show no certificate. /livez says whether its
event loop turns, and nothing else: a service that waits for something, or drains, is alive; started again it would wait
as long.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_READ = ("GET", "HEAD")
BEAT_S = 1.0
# A loop that is only busy comes round sooner than this.
STOPPED_AFTER_S = 30.0


class _Heartbeat:
    """Notes that the event loop turns, for threads outside it to see."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat()

    @property
    def beats(self) -> bool:
        """False once the loop has been stuck for a while."""
        return time.monotonic() - self._last < STOPPED_AFTER_S

    def _beat(self) -> None:
        self._last = time.monotonic()
        self._next = self._loop.call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        """Leaves the loop alone."""
        self._next.cancel()


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """A scrape every few seconds is no news."""


class _Server(ThreadingWSGIServer):
    timeout = 0.0  # who knocked may have left again

    def server_bind(self) -> None:
        # The stock one asks DNS for the host's name, which can take seconds and serves nothing here.
        # Scrapes that are not long over must not keep a service that starts again from its port.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()[:2]
        self.server_address, self.server_name, self.server_port = (host, port), str(host), int(port)
        self.setup_environ()


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class MetricsPort:
    """Listens from the moment it is made, in an event loop; /healthz says 503 until `serving` is true."""

    def __init__(self, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        self.serving = False
        self._metrics = make_wsgi_app()
        self._server = make_server(
            host.strip("[]"), int(port), self._answer, _ServerV6 if ":" in host else _Server, handler_class=_Silent
        )
        self.address = f"{host}:{self._server.server_port}"
        self._closing: asyncio.Task[None] | None = None
        self._heart = _Heartbeat()
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def begin_close(self) -> asyncio.Task[None]:
        """Begins to close the port, in a thread, as a request may just be read; returns what to wait for."""
        if self._closing is None:
            self._heart.stop()
            self._closing = asyncio.create_task(asyncio.to_thread(self._close))
        return self._closing

    def _serve(self) -> None:
        """Accepts until the port is closed. The library's own loop would look twice a second whether it is."""
        with selectors.DefaultSelector() as either:
            either.register(self._server, selectors.EVENT_READ)
            either.register(self._ended, selectors.EVENT_READ)
            while all(key.fileobj is self._server for key, _ in either.select()):
                self._server.handle_request()

    def _close(self) -> None:
        self._end.close()
        self._thread.join()
        self._ended.close()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            pages: Iterable[bytes] = self._metrics(environ, start_response)
            return pages
        if path not in ("/healthz", "/livez"):
            return _say(start_response, "404 Not Found", "there are /metrics, /healthz and /livez")
        if environ["REQUEST_METHOD"] not in _READ:
            return _say(start_response, "405 Method Not Allowed", "use GET")
        if path == "/livez":
            alive = self._heart.beats
            return _say(start_response, "200 OK" if alive else "503 Service Unavailable", "alive" if alive else "stuck")
        if self.serving:
            return _say(start_response, "200 OK", "serving")
        return _say(start_response, "503 Service Unavailable", "not serving")


def _say(start_response: StartResponse, status: str, words: str) -> Iterable[bytes]:
    body = f"{words}\n".encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
