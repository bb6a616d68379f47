"""Who calls: callers' tokens, checked with the keys of their issuer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jwt

from services.gateway.errors import KeysUnavailable
from services.gateway.settings import GatewaySettings
from services.kit.identity import Caller, CallerTokenVerifier
from services.kit.jwks import Jwks, JwksDocument, JwksEndpoint


class JwksFile:
    """Keys from a file, read again when it has changed, so that keys rotate without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = self._stat()
        self._document = self._read()

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Return the key that the token's header names. Raises PyJWTError, KeysUnavailable."""
        version = self._stat()
        if version != self._version:
            self._document, self._version = self._read(), version
        return self._document.signing_key(token)

    def _stat(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise KeysUnavailable(f"the issuer's keys can't be read: {error.strerror}") from error
        return status.st_mtime_ns, status.st_ino

    def _read(self) -> JwksDocument:
        try:
            return JwksDocument(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise KeysUnavailable("the issuer's keys can't be read") from error


class JwksUrl:
    """Keys from a URL; tells an endpoint that can't be reached from a token that is wrong."""

    def __init__(self, url: str) -> None:
        self._endpoint = JwksEndpoint(url)

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Return the key that the token's header names; blocks. Raises PyJWTError, KeysUnavailable."""
        try:
            return self._endpoint.signing_key(token)
        except jwt.PyJWKClientConnectionError as error:
            raise KeysUnavailable("the issuer's keys can't be fetched; try again", retry_after_s=5) from error


class Authenticator:
    """Checks callers' tokens; in a thread when `fetches`, as the issuer's keys may have to be fetched first."""

    def __init__(self, verifier: CallerTokenVerifier, *, fetches: bool) -> None:
        self._verifier = verifier
        self._fetches = fetches

    @classmethod
    def from_settings(cls, settings: GatewaySettings) -> Authenticator:
        """Check tokens as the settings say."""
        keys: Jwks = JwksFile(settings.jwks_file) if settings.jwks_file else JwksUrl(settings.jwks_url)
        verifier = CallerTokenVerifier(
            keys,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            roles_claim=settings.jwt_roles_claim,
        )
        return cls(verifier, fetches=bool(settings.jwks_url))

    async def authenticate(self, token: str) -> Caller:
        """Return the caller a token names. Raises TokenInvalid, TokenExpired, KeysUnavailable."""
        if self._fetches:
            return await asyncio.to_thread(self._verifier.verify, token)
        return self._verifier.verify(token)
