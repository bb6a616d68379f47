"""Who may connect to a service under TLS: peers with a certificate, and at the gateway anybody who brings a token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.gateway.settings import GatewaySettings
from services.kit.settings import ServiceSettings
from services.kit.wire.client import connect
from services.kit.wire.server import Service, running
from tests.fixtures.certificates import Authority, Certificate

SERVING = health_pb2.HealthCheckResponse.SERVING


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
    """A service with nothing but its health."""
    return Service([])


@asynccontextmanager
async def serving(certificate: Certificate, *, require_client_cert: bool | None = None) -> AsyncIterator[str]:
    chosen = {} if require_client_cert is None else {"tls_require_client_cert": require_client_cert}
    settings = ServiceSettings(**certificate.settings(), **chosen)  # type: ignore[arg-type]
    async with running("tls", settings, build) as service:
        yield service.address


async def health(channel: grpc.aio.Channel) -> health_pb2.HealthCheckResponse:
    return await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)


def without_certificate(address: str, authority: Path) -> grpc.aio.Channel:
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(authority.read_bytes()))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_peer_with_a_certificate_is_served(authority: Authority) -> None:
    peer = ServiceSettings(**authority.issue("peer").settings())  # type: ignore[arg-type]
    async with serving(authority.issue("service")) as address, connect(f"ipv4:{address}", peer) as channel:
        assert (await health(channel)).status == SERVING


async def test_several_addresses_of_a_host_are_checked_by_that_host(authority: Authority) -> None:
    peer = ServiceSettings(**authority.issue("peer").settings())  # type: ignore[arg-type]
    named = authority.issue("named", "another.example")
    async with (
        serving(authority.issue("one")) as one,
        serving(authority.issue("two")) as two,
        serving(named) as other,
        connect(f"ipv4:{one},{two}", peer) as channel,
        connect(f"ipv4:{other},{other}", peer) as wrong,
    ):
        for _ in range(4):
            assert (await health(channel)).status == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(wrong)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, "its certificate is for another host"


async def test_addresses_of_several_hosts_are_refused(authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    peer = ServiceSettings(**authority.issue("peer").settings())  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        connect("ipv4:127.0.0.1:1,127.0.0.2:1", peer)
    assert "give a name, dns:///host:port" in capsys.readouterr().err


async def test_an_internal_service_refuses_who_shows_no_certificate(authority: Authority) -> None:
    certificate = authority.issue("service")
    async with serving(certificate) as address, without_certificate(address, certificate.ca) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(channel)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_an_internal_service_refuses_a_certificate_of_another_authority(
    authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.issue("service")
    stranger = Authority(tmp_path, "elsewhere").issue("stranger")
    credentials = grpc.ssl_channel_credentials(
        certificate.ca.read_bytes(), stranger.key.read_bytes(), stranger.cert.read_bytes()
    )
    async with serving(certificate) as address, grpc.aio.secure_channel(address, credentials) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(channel)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_public_port_accepts_who_shows_no_certificate(authority: Authority) -> None:
    certificate = authority.issue("service")
    async with (
        serving(certificate, require_client_cert=False) as address,
        without_certificate(address, certificate.ca) as channel,
    ):
        assert (await health(channel)).status == SERVING


async def test_a_public_port_speaks_tls_all_the_same(authority: Authority) -> None:
    async with (
        serving(authority.issue("service"), require_client_cert=False) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(channel)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_only_the_gateway_does_without_client_certificates_by_itself() -> None:
    assert ServiceSettings.model_fields["tls_require_client_cert"].default is True
    assert GatewaySettings.model_fields["tls_require_client_cert"].default is False


async def test_renewed_certificates_are_shown_and_taken_without_a_refused_call(authority: Authority) -> None:
    life = timedelta(seconds=6)
    service, peer = authority.issue("service", good_for=life), authority.issue("peer", good_for=life)
    expiry = time.monotonic() + life.total_seconds()
    of_service = ServiceSettings(**service.settings(), max_connection_age_s=1)  # type: ignore[arg-type]
    of_peer = ServiceSettings(**peer.settings())  # type: ignore[arg-type]
    async with running("tls", of_service, build) as served, connect(f"ipv4:{served.address}", of_peer) as channel:
        assert (await health(channel)).status == SERVING
        authority.issue("service")
        # What does not fit together is not taken, and does not take away what there was.
        key = peer.key.read_bytes()
        authority.issue("peer")
        renewed, _ = peer.key.read_bytes(), peer.key.write_bytes(key)
        assert (await health(channel)).status == SERVING
        peer.key.write_bytes(renewed)
        while time.monotonic() < expiry + 2:
            assert (await health(channel)).status == SERVING
            await asyncio.sleep(0.05)
