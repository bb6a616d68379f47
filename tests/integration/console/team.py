"""A team's console, over TLS, with a gateway that does what a test says and an issuer; browsers that log in there."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx

from services.console.server import NAME, build
from services.console.settings import TeamConsoleSettings
from services.kit.wire.web_service import running
from tests.fixtures.certificates import Certificate
from tests.fixtures.oidc_issuer import CLIENT_ID, CLIENT_SECRET, OidcIssuer
from tests.fixtures.ports import reserved_port


@dataclass(frozen=True)
class TeamConsole:
    """A console that serves, as browsers know it."""

    base: str
    ca: Path

    @asynccontextmanager
    async def stranger(self, cookies: httpx.Cookies | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A browser that has not logged in; it trusts the console's certificate."""
        trusted = ssl.create_default_context(cafile=str(self.ca))
        async with httpx.AsyncClient(base_url=self.base, verify=trusted, timeout=30, cookies=cookies) as client:
            yield client

    @asynccontextmanager
    async def browser(self, person: str) -> AsyncIterator[httpx.AsyncClient]:
        """A browser of who has logged in, which says where its forms come from."""
        async with self.stranger() as client:
            back = await self.sent_back(client, person)
            entered = await client.get(back)
            assert entered.status_code == 303, entered.text
            client.headers["origin"] = self.base
            yield client

    async def sent_back(self, client: httpx.AsyncClient, person: str, place: str = "/login") -> str:
        """Asks for a page, says a name to the issuer, and returns where that sends the browser."""
        led = await client.get(place)
        assert led.status_code == 303, led.text
        async with httpx.AsyncClient() as elsewhere:
            answered = await elsewhere.get(httpx.URL(led.headers["location"]).copy_merge_params({"person": person}))
        assert answered.status_code == 303
        return str(answered.headers["location"])


@dataclass(frozen=True)
class Team:
    """What replicas of one console have in common: files, gateway, issuer."""

    folder: Path
    certificate: Certificate
    gateway_port: int
    issuer: OidcIssuer

    @asynccontextmanager
    async def console(self, base: str = "", **others: object) -> AsyncIterator[TeamConsole]:
        """Serves a replica; `base` is the address by which browsers know it, where that is another's."""
        with reserved_port() as port:
            settings = TeamConsoleSettings.model_validate(
                {
                    "listen": f"127.0.0.1:{port}",
                    "gateway_target": f"ipv4:127.0.0.1:{self.gateway_port}",
                    "public_url": base or f"https://localhost:{port}",
                    "oidc_issuer": self.issuer.url,
                    "oidc_client_id": CLIENT_ID,
                    "oidc_client_secret_file": self.file("client", CLIENT_SECRET),
                    "session_keys_file": self.file("keys", secrets.token_urlsafe(32)),
                    "shutdown_grace_s": 1,
                    **self.certificate.settings(),
                    **others,
                }
            )
            async with running(NAME, settings, build):
                yield TeamConsole(f"https://localhost:{port}", self.certificate.ca)

    def file(self, name: str, text: str) -> Path:
        """Returns a file with a text, unless it is there."""
        file = self.folder / name
        if not file.exists():
            file.write_text(text)
        return file


def credentials_of(certificate: Certificate) -> grpc.ServerCredentials:
    """Returns what a gateway under mTLS serves with."""
    pair = (certificate.key.read_bytes(), certificate.cert.read_bytes())
    return grpc.ssl_server_credentials([pair], certificate.ca.read_bytes(), require_client_auth=True)
