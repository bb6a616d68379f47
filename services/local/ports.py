"""Ports of this machine that belong to a server for as long as it may come back to them.

A port is free for everybody while its server is away, and the kernel gives it to the next who asks for any port, or
connects somewhere. So whoever starts servers holds their ports: a socket that is bound, and does not listen, keeps a
port out of what is given away, and refuses those who ask for it without SO_REUSEADDR. Servers set that option (ours,
gRPC, Postgres), and may listen on it. Standard library only.
"""

from __future__ import annotations

import socket
import weakref


class HeldPorts:
    """Ports that are held until whoever holds this object lets go of it."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        weakref.finalize(self, _close_all, self._sockets)

    def hold(self, address: str) -> str:
        """Holds the port of an address (host:port) that nobody listens at, a free one for port 0; returns the address.

        An address that can't be held is returned as it is: who is to listen there says better what is wrong with it.
        """
        if address in self._sockets:
            return address
        try:
            held = bind(address)
        except (OSError, OverflowError, ValueError):
            return address
        address = f"{address.rpartition(':')[0]}:{held.getsockname()[1]}"
        self._sockets[address] = held
        return address


def bind(address: str) -> socket.socket:
    """Returns a socket that holds the port of an address (host:port). Raises OSError where somebody listens there."""
    host, _, port = address.rpartition(":")
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host.strip("[]"), int(port)))
    except BaseException:
        held.close()
        raise
    return held


def _close_all(sockets: dict[str, socket.socket]) -> None:
    for each in sockets.values():
        each.close()
