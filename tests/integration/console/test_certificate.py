"""A service that speaks HTTP under TLS shows the certificate of the moment, without a start anew."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from cryptography import x509

from services.console.server import NAME, build
from services.console.settings import TeamConsoleSettings
from services.kit.wire.web_service import running
from tests.fixtures.certificates import Authority


async def shown(address: str) -> int:
    """Returns the serial number of the certificate that an address shows."""
    host, _, port = address.rpartition(":")
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def serial(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


async def test_a_renewed_certificate_is_shown(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("console")
    settings = TeamConsoleSettings.model_validate(
        {
            "gateway_target": "ipv4:127.0.0.1:9",
            "public_url": "https://localhost",
            "login": "proxy",
            **certificate.settings(),
        }
    )
    async with running(NAME, settings, build) as service:
        first = serial(certificate.cert)
        assert await shown(service.address) == first
        authority.issue("console")
        assert serial(certificate.cert) != first
        async with asyncio.timeout(30):
            while await shown(service.address) == first:
                pass
        assert await shown(service.address) == serial(certificate.cert)
