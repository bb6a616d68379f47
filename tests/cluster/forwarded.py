"""A port of another address that leads to one of loopback, in threads: tests here hold up the event loop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

PIECE_BYTES = 65536


class _Server(ThreadingTCPServer):
    daemon_threads = True
    to: int


class _Pipe(BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.to)) as there:
            back = Thread(target=_copy, args=(there, self.request), daemon=True)
            back.start()
            _copy(self.request, there)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # either end is gone: so is the connection
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def forwarded(address: str, port: int) -> Iterator[int]:
    """Takes connections at a free port of an address, and yields it."""
    with _Server((address, 0), _Pipe) as server:
        server.to = port
        Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()
