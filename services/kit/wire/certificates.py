"""A service's certificate, key and authority, read again when their files change: renewals need no restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from services.kit.settings import ServiceSettings
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import CERTIFICATE_EXPIRES
from services.kit.wire.tasks import detached

log = get_logger()
# A handshake or a call looks at the files no more often than this.
LOOK_EVERY_S: Final = 1.0
# How long calls of a channel with the former certificate may go on.
FORMER_GRACE_S: Final = 600.0


@dataclass(frozen=True)
class Pems:
    """What the files hold, PEM as it came."""

    cert: bytes
    key: bytes
    ca: bytes


class Certificates:
    """The files of one service; what is half written or does not fit together is not taken."""

    def __init__(self, cert: Path, key: Path, ca: Path) -> None:
        self._files = (cert, key, ca)
        self._stamps = self._look()
        self._pems = self._read()
        self._looked_at = time.monotonic()

    @classmethod
    def of(cls, settings: ServiceSettings) -> Certificates | None:
        """Returns those that settings name, if TLS is on. Raises OSError, and ValueError where they don't fit."""
        if not (settings.tls_cert and settings.tls_key and settings.tls_ca):
            return None
        return cls(settings.tls_cert, settings.tls_key, settings.tls_ca)

    def current(self) -> Pems:
        """Returns what holds now; the same object for as long as nothing has changed."""
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return self._pems
        self._looked_at = time.monotonic()
        try:
            stamps = self._look()
            if stamps != self._stamps:
                self._pems, self._stamps = self._read(), stamps
                log.info("certificate renewed", file=str(self._files[0]))
        except (OSError, ValueError) as error:
            log.warning("certificate not renewed", file=str(self._files[0]), error=str(error))
        return self._pems

    def _look(self) -> list[tuple[int, int, int]]:
        found = [file.stat() for file in self._files]
        return [(each.st_mtime_ns, each.st_ino, each.st_size) for each in found]

    def _read(self) -> Pems:
        # A tenth of a second of imports that services without TLS start without.
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        pems = Pems(*(file.read_bytes() for file in self._files))
        leaf = x509.load_pem_x509_certificate(pems.cert)
        key = serialization.load_pem_private_key(pems.key, password=None)
        if leaf.public_key() != key.public_key():
            raise ValueError("the key is not the certificate's")
        x509.load_pem_x509_certificates(pems.ca)
        CERTIFICATE_EXPIRES.set(leaf.not_valid_after_utc.timestamp())
        return pems


def server_credentials(certificates: Certificates, *, require_client_cert: bool) -> grpc.ServerCredentials:
    """Returns credentials by which each handshake shows the certificate of its moment."""
    told = [certificates.current()]

    # None says that nothing has changed, which the stubs leave out.
    def fetch() -> Any:
        pems = certificates.current()
        if pems is told[0]:
            return None
        told[0] = pems
        return _configuration(pems)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(told[0]), fetch, require_client_authentication=require_client_cert
    )


def _configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pems.key, pems.cert)], root_certificates=pems.ca)


class RenewedChannel(grpc.aio.Channel):
    """A channel that is opened anew when the certificate that it shows has changed.

    gRPC's own channel in Python shows one certificate for ever. Calls under way end on the channel that they began on.
    """

    def __init__(self, certificates: Certificates, opened: Callable[[Pems], grpc.aio.Channel]) -> None:
        self._certificates = certificates
        self._opened = opened
        self._pems = certificates.current()
        self._channel = opened(self._pems)
        self._former: set[asyncio.Task[None]] = set()

    def current(self) -> grpc.aio.Channel:
        """Returns the channel with the certificate that holds now."""
        pems = self._certificates.current()
        if pems is not self._pems:
            end = detached(self._channel.close(FORMER_GRACE_S))
            self._former.add(end)
            end.add_done_callback(self._former.discard)
            self._pems, self._channel = pems, self._opened(pems)
        return self._channel

    async def __aenter__(self) -> RenewedChannel:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Closes it, and what is left of former ones."""
        for end in self._former:
            end.cancel()
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Returns the state of the present connection."""
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Waits until the present connection has another state."""
        await self.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Waits until the present connection is ready."""
        await self.current().channel_ready()

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        """Returns what makes calls of a method."""
        return _Method(self, "unary_unary", method, options)

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        """Returns what makes calls of a method."""
        return _Method(self, "unary_stream", method, options)

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        """Returns what makes calls of a method."""
        return _Method(self, "stream_unary", method, options)

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        """Returns what makes calls of a method."""
        return _Method(self, "stream_stream", method, options)


class _Method:
    """Makes calls of one method on the channel of the moment."""

    def __init__(self, channel: RenewedChannel, kind: str, method: Any, options: Any) -> None:
        self._channel = channel
        self._made = kind, method, options
        self._of: grpc.aio.Channel | None = None
        self._call: Any = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        current = self._channel.current()
        if current is not self._of:
            kind, method, made = self._made
            self._of, self._call = current, getattr(current, kind)(*method, **made)
        return self._call(*arguments, **options)
