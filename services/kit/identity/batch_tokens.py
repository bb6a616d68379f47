"""Batch tokens: by what the runs of a batch are made, read and cancelled for a caller who has gone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from services.kit.identity.caller import Caller, ClocksApart, TokenExpired, TokenInvalid
from services.kit.identity.claims import caller_of
from services.kit.identity.keys import public_keys
from services.kit.identity.signed_tokens import TokenSigner, VerifiedTokens, claims_of_platform
from services.kit.telemetry.names import AUDIENCE_RUNTIME, ISSUER_BATCHES

BATCH_TOKEN_LIFE_S: Final = 60
# However long a batch token says it lives, an older one is not known.
LONGEST_BATCH_TOKEN_LIFE_S: Final = 600


@dataclass(frozen=True)
class BatchTokenClaims:
    """What a batch token says: whose runs, and of which batch."""

    caller: Caller
    batch_id: str


class BatchTokenMinter:
    """Mints the tokens of one batch; hands one out again while more than half of its life is left."""

    def __init__(self, private_pem: str, claims: BatchTokenClaims) -> None:
        self._signer = TokenSigner(private_pem, issuer=ISSUER_BATCHES, ttl_s=BATCH_TOKEN_LIFE_S)
        self._claims = claims
        self._minted_at = 0.0
        self._token = ""

    def mint(self) -> str:
        """Returns a token that is good for half a minute at the least."""
        now = time.time()
        if not 0 <= now - self._minted_at < BATCH_TOKEN_LIFE_S / 2:
            caller = self._claims.caller
            self._token = self._signer.sign(
                caller, AUDIENCE_RUNTIME, claims=dict(caller.claims), batch=self._claims.batch_id
            )
            self._minted_at = now
        return self._token


class BatchTokenVerifier:
    """Verifies batch tokens; `public_pem` as `public_keys` reads it."""

    def __init__(self, public_pem: str) -> None:
        self._keys = public_keys(public_pem)
        self._verified = VerifiedTokens()

    def verify(self, token: str) -> BatchTokenClaims:
        """Returns what a token says. Raises ClocksApart, TokenInvalid."""
        try:
            claims = self._verified.claims(token, lambda: self._verify(token))
        except TokenExpired as error:
            raise ClocksApart("the batch token expired on the way, or one of the two clocks is off") from error
        if time.time() - claims["iat"] > LONGEST_BATCH_TOKEN_LIFE_S:
            raise TokenInvalid("the batch token is too old")
        batch_id = claims.get("batch")
        if not isinstance(batch_id, str) or not batch_id:
            raise TokenInvalid("the token names no batch")
        return BatchTokenClaims(caller_of(claims, "roles", claims.get("claims", {})), batch_id)

    def _verify(self, token: str) -> dict[str, Any]:
        claims = claims_of_platform(token, self._keys, issuer=ISSUER_BATCHES, audience=AUDIENCE_RUNTIME)
        if type(claims["iat"]) not in (int, float):
            raise TokenInvalid("the token's time of issue is not a number")
        return claims
