"""How either end of a connection learns that the other has gone silent, though nobody closed it.

A peer that vanishes without a word (a node that loses power, a firewall that forgets) leaves connections that look
well.
"""

from __future__ import annotations

import socket
from typing import Any

# More than the 10 s that services of the release before this one want between two pings: less, and they hang up.
_PING_AFTER_MS = 11_000
_ANSWER_WITHIN_MS = 5_000
_PROBE_AFTER_S = 5
_PROBE_EVERY_S = 2
_PROBES = 3
_UNACKNOWLEDGED_MS = 10_000

# For gRPC, on both ends: a connection with calls in flight that says nothing is asked, and is over without an answer.
GRPC_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", _PING_AFTER_MS),
    ("grpc.keepalive_timeout_ms", _ANSWER_WITHIN_MS),
    # What gRPC in fact waits for the answer to a ping; by itself a minute.
    ("grpc.http2.ping_timeout_ms", _ANSWER_WITHIN_MS),
    # By itself gRPC stops asking after two pings with no data between them: the quiet connections are what this is for.
    ("grpc.http2.max_pings_without_data", 0),
)

# For libpq: parameters of a connection to Postgres.
NOTICE_LOSS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": _PROBE_AFTER_S,
    "keepalives_interval": _PROBE_EVERY_S,
    "keepalives_count": _PROBES,
    "tcp_user_timeout": _UNACKNOWLEDGED_MS,
}

# For a session of Postgres, so that the server notices too: its own default is the system's, two hours.
NOTICE_LOSS_THERE: dict[str, str] = {
    "tcp_keepalives_idle": str(_PROBE_AFTER_S),
    "tcp_keepalives_interval": str(_PROBE_EVERY_S),
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": str(_UNACKNOWLEDGED_MS),
}


def notice_silence(connection: socket.socket) -> None:
    """Makes a TCP socket fail within seconds of its peer's kernel going silent, as far as the system can."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": _PROBE_AFTER_S,
        "TCP_KEEPINTVL": _PROBE_EVERY_S,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_MS,
    }
    for name, value in wanted.items():
        if hasattr(socket, name):  # not every system has them all
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
