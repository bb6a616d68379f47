"""Callers' own tokens, from the issuer that the gateway trusts, and the gateway's word to the runtime about them."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any, Final

import jwt

from services.kit.identity.caller import Caller, ClocksApart, KeyUnknown, TokenExpired, TokenInvalid
from services.kit.identity.claims import caller_of, has_claim
from services.kit.identity.jwks import Jwks, UnknownKeyId
from services.kit.identity.keys import public_keys
from services.kit.identity.signed_tokens import (
    CLOCK_SKEW_S,
    TokenSigner,
    VerifiedTokens,
    claims_of_platform,
    signed_claims,
)
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import AUDIENCE_RUNTIME, ISSUER_GATEWAY

log = get_logger()

# Only asymmetric algorithms: with a shared-secret one, a public key could pass for the secret.
CALLER_ALGORITHMS: Final = ("EdDSA", "ES256", "RS256")
MINTED_MOST: Final = 2048
# What services pass on beside it has to fit into the 8 KiB of metadata that gRPC takes, too.
LONGEST_WORD: Final = 5_500
# Names of claims that a line of the log lists.
MOST_TOLD: Final = 50


class IssuerTokenVerifier:
    """Verifies the tokens that callers bring to the gateway, from the issuer that it trusts."""

    def __init__(
        self,
        jwks: Jwks,
        *,
        issuer: str,
        audience: str,
        roles_claim: str = "roles",
        passed_claims: Collection[str] = (),
        longest_life_s: float = math.inf,
    ) -> None:
        self._longest_life_s = longest_life_s
        self._jwks = jwks
        self._issuer = issuer
        self._audience = audience
        self._roles_claim = roles_claim
        self._passed_claims = passed_claims
        self._verified = VerifiedTokens()
        self._told_of: set[str] = set()
        log.info("claims that are read of callers' tokens", roles=roles_claim, passed=sorted(passed_claims))

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names, with the claims that are passed on.

        Raises TokenInvalid, also for such a claim that is not a name, KeyUnknown, TokenExpired.
        """
        claims = self._verified.claims(token, lambda: self._verify(token))
        passed = {name: claims[name] for name in self._passed_claims if name in claims}
        self._tell_of_missing(claims)
        return caller_of(claims, self._roles_claim, passed)

    def _tell_of_missing(self, claims: Mapping[str, Any]) -> None:
        """Says once of each claim that a token lacks it: a misspelt one would else be missed in silence, by all."""
        for name in {self._roles_claim, *self._passed_claims} - self._told_of:
            if not has_claim(claims, name):
                self._told_of.add(name)
                log.warning("a caller's token lacks a claim that is read", claim=name, there=sorted(claims)[:MOST_TOLD])

    def _verify(self, token: str) -> dict[str, Any]:
        try:
            key = self._jwks.signing_key(token)
        except UnknownKeyId as error:
            raise KeyUnknown("the token is not signed by a key of this platform's issuer") from error
        except jwt.PyJWTError as error:
            raise TokenInvalid("the token is not signed by a key of this platform's issuer") from error
        if key.algorithm_name not in CALLER_ALGORITHMS:
            raise TokenInvalid("the token's key uses an algorithm that is not accepted")
        claims = signed_claims(token, [key.key], key.algorithm_name, issuer=self._issuer, audience=self._audience)
        # Not ">", which a NaN would pass.
        if not claims["exp"] - time.time() <= self._longest_life_s + CLOCK_SKEW_S:
            raise TokenInvalid(f"the token is good for longer than {self._longest_life_s:g} s; get one for less")
        return claims


class CallerTokenMinter:
    """Mints caller tokens: the gateway's word to a service behind it, by default the runtime, about who calls."""

    def __init__(self, private_pem: str, *, ttl_s: int = 60, audience: str = AUDIENCE_RUNTIME) -> None:
        self._audience = audience
        self._signer = TokenSigner(private_pem, issuer=ISSUER_GATEWAY, ttl_s=ttl_s)
        self._good_for_s = ttl_s / 2
        self._minted: OrderedDict[Caller, tuple[float, str]] = OrderedDict()

    def mint(self, caller: Caller) -> str:
        """Returns a token that names the caller, and says what claims of theirs are passed on.

        It may have been handed out before, with more than half its life to go: to sign and verify one takes longer
        than most calls that carry it. Raises TokenInvalid for a caller of whom too much is to be said.
        """
        now = time.time()
        minted_at, token = self._minted.get(caller, (-math.inf, ""))
        if not 0 <= now - minted_at < self._good_for_s:
            token = self._signer.sign(caller, self._audience, claims=dict(caller.claims))
            if len(token) > LONGEST_WORD:
                raise TokenInvalid(
                    "the token names more roles and claims than can be passed on: some 4 KB of ASCII text"
                )
            self._minted.pop(caller, None)
            self._minted[caller] = (now, token)
            if len(self._minted) > MINTED_MOST:
                self._minted.popitem(last=False)
        return token


class CallerTokenVerifier:
    """Verifies caller tokens for one service; `public_pem` as `public_keys` reads it."""

    def __init__(self, public_pem: str, audience: str = AUDIENCE_RUNTIME) -> None:
        self._audience = audience
        self._keys = public_keys(public_pem)
        self._verified = VerifiedTokens()

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names. Raises ClocksApart, TokenInvalid."""
        try:
            claims = self._verified.claims(
                token, lambda: claims_of_platform(token, self._keys, issuer=ISSUER_GATEWAY, audience=self._audience)
            )
        except TokenExpired as error:
            # The gateway gives its word with half its life left at the least: a caller can't mend this.
            raise ClocksApart("the gateway's token expired on the way, or one of the two clocks is off") from error
        return caller_of(claims, "roles", claims.get("claims", {}))
