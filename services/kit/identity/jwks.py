"""The keys that sign callers' tokens, as their issuer publishes them (RFC 7517)."""

from __future__ import annotations

from typing import Protocol

import jwt
from jwt import PyJWKSet


class UnknownKeyId(jwt.InvalidTokenError):
    """No key with the id that a token names is known, yet or any more."""


class Jwks(Protocol):
    """Where the keys that sign callers' tokens come from."""

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names, from memory. Raises UnknownKeyId and other PyJWTErrors."""


class JwksDocument:
    """Keys from a JWKS document; those that are not for signatures are left out."""

    def __init__(self, document: str) -> None:
        """Raises PyJWTError, and ValueError for what is no JWK set."""
        try:
            keys = PyJWKSet.from_json(document).keys
        except (AttributeError, TypeError, KeyError, RecursionError) as error:  # JSON of another form
            raise ValueError("the document is no JWK set") from error
        self._keys = {key.key_id: key for key in keys if key.public_key_use in ("sig", None)}

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names. Raises UnknownKeyId and other PyJWTErrors."""
        key = self._keys.get(jwt.get_unverified_header(token).get("kid"))
        if key is None:
            raise UnknownKeyId("no such key id")
        return key
