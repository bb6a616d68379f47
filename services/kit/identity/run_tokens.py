"""Run tokens: what a run's calls to guard, evaluator and executors carry."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final

from services.kit.identity.caller import RunClaims, StaleEpoch, TokenExpired, TokenInvalid
from services.kit.identity.claims import caller_of, is_strings
from services.kit.identity.keys import public_keys
from services.kit.identity.signed_tokens import TokenSigner, VerifiedTokens, claims_of_platform
from services.kit.telemetry.names import AUDIENCE_ANY_SERVICE, ISSUER_RUNTIME

# However long a run token says it lives, an older one is not known; its holder has had a new one for minutes.
LONGEST_RUN_TOKEN_LIFE_S: Final = 600
# Of a run's first claim.
FIRST_EPOCH: Final = 1
RUNS_REMEMBERED: Final = 10_000


class RunTokenMinter:
    """Mints run tokens: what a run's calls to guard, evaluator and executors carry, each token for one of them."""

    def __init__(self, private_pem: str, *, ttl_s: int = 300) -> None:
        self._signer = TokenSigner(private_pem, issuer=ISSUER_RUNTIME, ttl_s=ttl_s)

    def mint(self, claims: RunClaims, audience: str) -> str:
        """Returns a token that says the claims to one service."""
        return self._signer.sign(
            # Services of the last release look for the first; those of this one for their own.
            claims.caller, [AUDIENCE_ANY_SERVICE, audience], run_id=claims.run_id, agent=claims.agent,
            tools=sorted(claims.tools), epoch=claims.epoch, writes=claims.writes,
            claims=dict(claims.caller.claims),
        )  # fmt: skip


class RunTokenVerifier:
    """Verifies the run tokens that are for one service, and remembers which claim of a run was the latest to call.

    `public_pem` as `public_keys` reads it.
    """

    def __init__(self, public_pem: str, audience: str) -> None:
        self._keys = public_keys(public_pem)
        self._audience = audience
        self._verified = VerifiedTokens()
        self._epochs: OrderedDict[str, int] = OrderedDict()

    def verify(self, token: str) -> RunClaims:
        """Returns what a token says. Raises ClocksApart, TokenInvalid, TokenExpired, StaleEpoch."""
        claims = self._verified.claims(token, lambda: self._verify(token))
        if time.time() - claims["iat"] > LONGEST_RUN_TOKEN_LIFE_S:
            raise TokenExpired("the run token is too old; its run has a newer one")
        run_id, agent, tools, epoch = (claims.get(name) for name in ("run_id", "agent", "tools", "epoch"))
        well_formed = (
            isinstance(run_id, str) and isinstance(agent, str) and isinstance(epoch, int) and is_strings(tools)
        )
        if not well_formed:
            raise TokenInvalid("the run token lacks a claim")
        caller = caller_of(claims, "roles", claims.get("claims", {}))
        writes = claims.get("writes", False) is True
        said = RunClaims(caller, str(run_id), str(agent), frozenset(tools or ()), int(epoch or 0), writes)
        self._check_epoch(said)
        return said

    def _verify(self, token: str) -> dict[str, Any]:
        claims = claims_of_platform(
            token, self._keys, issuer=ISSUER_RUNTIME, audience=[self._audience, AUDIENCE_ANY_SERVICE]
        )
        # A runtime of the last release names nothing but the audience that all services had; see ADR 0016.
        if claims["aud"] not in (AUDIENCE_ANY_SERVICE, [AUDIENCE_ANY_SERVICE]) and self._audience not in claims["aud"]:
            raise TokenInvalid("the run token is for another service")
        if type(claims["iat"]) not in (int, float):
            raise TokenInvalid("the token's time of issue is not a number")
        return claims

    def _check_epoch(self, said: RunClaims) -> None:
        if said.epoch < self._epochs.get(said.run_id, FIRST_EPOCH):
            raise StaleEpoch("another replica has claimed the run since this token was minted")
        if said.epoch == FIRST_EPOCH:
            return  # Nothing is earlier, so most runs need not be remembered.
        self._epochs[said.run_id] = said.epoch
        self._epochs.move_to_end(said.run_id)
        if len(self._epochs) > RUNS_REMEMBERED:
            self._epochs.popitem(last=False)
