"""Ports that are held: nobody else is given them, also while the server is away that is to listen there."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.local.ports import HeldPorts
from services.local.postgres import EmbeddedPostgres
from services.local.processes import Program, ServiceProcess
from tests.fixtures.patience import START_TIMEOUT_S

# From linux/in.h: the ports of which a socket is given one that asks for any.
_IP_LOCAL_PORT_RANGE = 51


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextmanager
def asking_among(port: int) -> Iterator[socket.socket]:
    """A socket that is given this port or none."""
    with socket.socket() as asks:
        try:
            asks.setsockopt(socket.IPPROTO_IP, _IP_LOCAL_PORT_RANGE, struct.pack("I", port | port << 16))
        except OSError as error:
            pytest.skip(f"this kernel can't narrow the choice of ports: {error}")
        yield asks


def check_nobody_is_given(address: str) -> None:
    """Checks that no port is left for who asks for any among this one, to listen or to connect from."""
    port = port_of(address)
    for option in (0, 1):
        with asking_among(port) as asks:
            asks.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, option)
            with pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
                asks.bind(("127.0.0.1", 0))
    with (
        socket.create_server(("127.0.0.1", 0)) as somewhere,
        asking_among(port) as connects,
        pytest.raises(OSError, match=f"Errno {errno.EADDRNOTAVAIL}"),
    ):
        connects.connect(somewhere.getsockname())
    with socket.socket() as names_it, pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
        names_it.bind(("127.0.0.1", port))


def test_a_held_port_is_for_a_server_that_names_it_alone() -> None:
    held = HeldPorts()
    address = held.hold("127.0.0.1:0")
    assert held.hold(address) == address
    for _ in range(2):
        check_nobody_is_given(address)
        with socket.create_server(("127.0.0.1", port_of(address))) as server:
            socket.create_connection(server.getsockname()).close()
    del held
    with asking_among(port_of(address)) as asks:
        asks.bind(("127.0.0.1", 0))
        assert asks.getsockname()[1] == port_of(address)


def test_a_port_that_somebody_listens_on_is_left_to_who_would_listen_there_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        assert HeldPorts().hold(taken) == taken


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:port", "127.0.0.1:70000", "a..b:0", "192.0.2.1:0"])
def test_what_is_no_address_of_this_machine_is_left_to_who_would_listen_there(address: str) -> None:
    assert HeldPorts().hold(address) == address


async def test_ports_of_a_service_that_is_away_are_its_own(tmp_path: Path) -> None:
    arguments = ["-P", "-m", "tests.integration.local.stand_in", "obedient", str(tmp_path / "journal")]
    service = ServiceProcess(Program("child", arguments), tmp_path, ready_timeout_s=START_TIMEOUT_S)
    ready = await service.start()
    await service.kill()
    check_nobody_is_given(ready.listen)
    check_nobody_is_given(ready.metrics)


def test_the_port_of_a_postgres_that_is_away_is_its_own() -> None:
    server = EmbeddedPostgres(durable=False, start_timeout_s=START_TIMEOUT_S)
    with server:
        port = server.port
    check_nobody_is_given(f"127.0.0.1:{port}")
    with server:
        assert server.port == port
