"""Who calls: callers' tokens, checked with the keys of their issuer."""

from __future__ import annotations

from services.gateway.issuer_keys import IssuerKeys
from services.gateway.settings import GatewaySettings
from services.kit.identity.caller import Caller, KeyUnknown
from services.kit.identity.caller_tokens import IssuerTokenVerifier


class Authenticator:
    """Checks callers' tokens; waits only for keys that are not known yet."""

    def __init__(self, keys: IssuerKeys, settings: GatewaySettings) -> None:
        self._keys = keys
        self._verifier = IssuerTokenVerifier(
            keys,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            roles_claim=settings.jwt_roles_claim,
            passed_claims=settings.jwt_passed_claims,
            longest_life_s=settings.jwt_longest_life_s,
        )

    async def authenticate(self, token: str) -> Caller:
        """Returns the caller a token names. Raises TokenInvalid, TokenExpired, KeysUnavailable."""
        try:
            return self._verifier.verify(token)
        except KeyUnknown:
            await self._keys.look_again()
            return self._verifier.verify(token)
