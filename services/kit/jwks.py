"""Where the keys that sign callers' tokens come from: a document, or the issuer's endpoint (RFC 7517)."""

from __future__ import annotations

from typing import Protocol

import jwt
from jwt import PyJWKClient, PyJWKSet


class Jwks(Protocol):
    """Where the keys that sign callers' tokens come from."""

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names. Raises PyJWTError."""


class JwksDocument:
    """Keys from a JWKS document."""

    def __init__(self, document: str) -> None:
        self._keys = PyJWKSet.from_json(document)

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names. Raises PyJWTError."""
        key_id = jwt.get_unverified_header(token).get("kid")
        for key in self._keys.keys:
            if key.key_id == key_id:
                return key
        raise jwt.InvalidTokenError("no such key id")


class JwksEndpoint:
    """Keys from a JWKS URL, cached; a key id never seen before makes it look again."""

    def __init__(self, url: str, *, lifespan_s: float = 300, timeout_s: float = 5) -> None:
        self._client = PyJWKClient(url, cache_jwk_set=True, lifespan=lifespan_s, timeout=timeout_s)

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names; blocks while it fetches. Raises PyJWTError."""
        return self._client.get_signing_key_from_jwt(token)
