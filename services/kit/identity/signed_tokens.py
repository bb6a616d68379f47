"""Tokens as they are signed, verified and remembered, whatever they say."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization

from services.kit.identity.caller import Caller, ClocksApart, TokenExpired, TokenInvalid
from services.kit.identity.keys import EDDSA

MAX_TOKEN_LENGTH: Final = 8192
CLOCK_SKEW_S: Final = 5
# Long enough for the calls of a run, short enough for a key that is taken back.
VERIFIED_FOR_S: Final = 30
VERIFIED_MOST: Final = 512


class TokenSigner:
    """Signs tokens of one issuer, good for `ttl_s` seconds."""

    def __init__(self, private_pem: str, *, issuer: str, ttl_s: int) -> None:
        self._key = serialization.load_pem_private_key(private_pem.encode(), password=None)
        self._issuer = issuer
        self._ttl_s = ttl_s

    def sign(self, caller: Caller, audience: str | list[str], **claims: Any) -> str:
        """Returns a new token that says who the caller is, and the claims."""
        now = int(time.time())
        payload = {
            "iss": self._issuer, "aud": audience, "sub": caller.subject, "roles": sorted(caller.roles),
            "iat": now, "exp": now + self._ttl_s, **claims,
        }  # fmt: skip
        return jwt.encode(payload, self._key, algorithm=EDDSA)  # type: ignore[arg-type]


class VerifiedTokens:
    """Claims of tokens whose signature has just been checked: a run's calls, or a caller's, carry the same token."""

    def __init__(self) -> None:
        self._claims: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()

    def claims(self, token: str, verify: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns a token's claims, verified now or less than VERIFIED_FOR_S ago, and not expired since.

        Raises TokenInvalid for what is no token, and what `verify` raises.
        """
        _bound(token)
        verified_at, claims = self._claims.get(token, (0.0, None))
        now = time.time()
        if claims is not None and now - verified_at < VERIFIED_FOR_S and now < claims["exp"]:
            return claims
        self._claims.pop(token, None)
        claims = verify()
        self._claims[token] = (now, claims)
        # The oldest come first; what is too old is of no use, and some 4 KB each.
        while len(self._claims) > VERIFIED_MOST or now - next(iter(self._claims.values()))[0] >= VERIFIED_FOR_S:
            self._claims.popitem(last=False)
        return claims


def signed_claims(
    token: str, keys: Sequence[Any], algorithm: str, *, issuer: str, audience: str | list[str]
) -> dict[str, Any]:
    """Returns the claims of a token that one of the keys has signed. Raises TokenInvalid, TokenExpired."""
    try:
        claims = _decode(
            token, keys, algorithms=[algorithm], issuer=issuer, audience=audience, leeway=CLOCK_SKEW_S,
            options={"require": ["exp", "iat", "sub", "aud", "iss"]},
        )  # fmt: skip
    except jwt.ExpiredSignatureError as error:
        raise TokenExpired("the token has expired; get a new one") from error
    except jwt.PyJWTError as error:
        raise TokenInvalid("the token is not valid here") from error
    # PyJWT reads "1700000000" as a time too; what is compared later is the claim itself.
    if type(claims["exp"]) not in (int, float):
        raise TokenInvalid("the token's expiry is not a number")
    return claims


def claims_of_platform(token: str, keys: Sequence[Any], *, issuer: str, audience: str | list[str]) -> dict[str, Any]:
    """Returns the claims of a token that another service of the platform has signed, as it does just before a call.

    Raises ClocksApart where that was later than it is now, TokenInvalid, TokenExpired.
    """
    try:
        return signed_claims(token, keys, EDDSA, issuer=issuer, audience=audience)
    except TokenInvalid as error:
        if isinstance(error.__cause__, jwt.ImmatureSignatureError):
            raise ClocksApart(
                f"the token was made more than {CLOCK_SKEW_S} s later than it is here; set the clocks right"
            ) from error
        raise


def _bound(token: str) -> None:
    if len(token) > MAX_TOKEN_LENGTH:
        raise TokenInvalid(f"the token is longer than {MAX_TOKEN_LENGTH} characters")
    if not token.isascii():
        raise TokenInvalid("the token has invalid characters")


def _decode(token: str, keys: Sequence[Any], **checks: Any) -> dict[str, Any]:
    *others, last = keys
    for key in others:
        with suppress(jwt.InvalidSignatureError):
            return jwt.decode(token, key, **checks)
    return jwt.decode(token, last, **checks)
