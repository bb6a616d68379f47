"""The caller's own token at a server: the run's token exchanged for it at the server's issuer (RFC 8693)."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from collections import OrderedDict
from typing import Any, Final
from urllib.parse import quote_plus

import httpx2
import jwt

from services.kit.identity.caller import Caller
from services.mcp_executor.errors import GrantMissing, ServerAway
from services.mcp_executor.metrics import TOKENS
from services.mcp_executor.servers import TokenExchange

_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name
# What issuers say where the caller has to do something first, or may not at all (RFC 6749, RFC 8693, OpenID Connect).
_NOT_GRANTED: Final = frozenset(
    (
        "access_denied",
        "consent_required",
        "interaction_required",
        "invalid_grant",
        "invalid_request",
        "invalid_target",
        "login_required",
    )
)
CALLERS_REMEMBERED: Final = 1000
# Before its end a token is not used any more; one without an end is asked for anew after so long.
_BEFORE_THE_END_S: Final = 30.0
_LIFE_S: Final = 60.0
_LONGEST_LIFE_S: Final = 3600.0
_LONGEST_WORDS: Final = 500


class CallersTokens:
    """Tokens of callers at one server, kept while they live."""

    def __init__(self, server: str, exchange: TokenExchange, client: httpx2.AsyncClient) -> None:
        self._server = server
        self._exchange = exchange
        self._client = client
        # By all that the exchanged token says of a caller: roles and claims too.
        self._kept: OrderedDict[Caller, tuple[float, str]] = OrderedDict()
        for outcome in ("given", "refused", "away"):
            TOKENS.labels(server, outcome)

    async def token(self, caller: Caller, run_token: str) -> str:
        """Returns a caller's token. Raises GrantMissing, ServerAway."""
        until, kept = self._kept.get(caller, (0.0, ""))
        if time.monotonic() < until:
            return kept
        began = time.monotonic()
        token, life_s = await self._exchanged(run_token)
        self._kept[caller] = (began + life_s - _BEFORE_THE_END_S, token)
        self._kept.move_to_end(caller)
        if len(self._kept) > CALLERS_REMEMBERED:
            self._kept.popitem(last=False)
        return token

    def forget(self, caller: Caller) -> None:
        """Forgets the token of a caller, which the server did not take."""
        self._kept.pop(caller, None)

    def missing(self, why: str) -> GrantMissing:
        """Returns what a caller is told who has no token there."""
        where = f" Consent is given at {self._exchange.grant_url}." if self._exchange.grant_url else ""
        return GrantMissing(f"There is no access to {self._server} on behalf of this caller: {why}.{where}")

    async def _exchanged(self, run_token: str) -> tuple[str, float]:
        exchange = self._exchange
        asked = {
            "grant_type": _GRANT,
            "subject_token": run_token,
            "subject_token_type": _JWT,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": exchange.audience,
            "resource": exchange.resource,
            "scope": exchange.scope,
        }
        try:
            given = {name: value for name, value in asked.items() if value}
            response = await self._client.post(exchange.url, data=given, headers=self._credentials())
            said = response.json()
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise self._away(str(error) or type(error).__name__) from error
        if not isinstance(said, dict):
            raise self._away("its answer is no JSON object")
        if not response.is_success:
            raise self._refused(response.status_code, said)
        token, life_s = said.get("access_token"), said.get("expires_in")
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise self._away("its answer holds no access token")
        if problem := self._problem_of(said, token):
            raise self._away(problem)
        TOKENS.labels(self._server, "given").inc()
        if not isinstance(life_s, int | float) or not 0 < life_s < math.inf:
            life_s = _LIFE_S
        return token, float(min(life_s, _LONGEST_LIFE_S))

    def _problem_of(self, said: dict[str, Any], token: str) -> str:
        """Returns why a token is not to be sent to the server; empty where it may be.

        One for another audience would be given away. What is no JWT says nothing of that.
        """
        if str(said.get("token_type") or "Bearer").lower() != "bearer":
            return "its token is none that a bearer shows"
        wanted = {each for each in (self._exchange.audience, self._exchange.resource) if each}
        try:
            audience = jwt.decode(token, options={"verify_signature": False}).get("aud")
        except jwt.PyJWTError:
            return ""
        if not wanted or audience is None:
            return ""
        named = [audience] if isinstance(audience, str) else audience
        is_other = not isinstance(named, list) or (named and wanted.isdisjoint(map(str, named)))
        return "its token is for another audience" if is_other else ""

    def _credentials(self) -> dict[str, str]:
        """Returns the header that says who asks (RFC 6749, 2.3.1)."""
        exchange = self._exchange
        if not exchange.client_id:
            return {}
        file = exchange.client_secret_file
        secret = file.read_text(encoding="utf-8").strip() if file else ""
        pair = f"{quote_plus(exchange.client_id)}:{quote_plus(secret)}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}

    def _refused(self, status: int, said: dict[str, Any]) -> Exception:
        error, words = str(said.get("error") or ""), str(said.get("error_description") or "")
        told = (f"{error}: {words}" if words else error or f"HTTP status {status}")[:_LONGEST_WORDS]
        if status in (400, 403) and error in _NOT_GRANTED:
            TOKENS.labels(self._server, "refused").inc()
            return self.missing(f"the issuer says {told}")
        return self._away(told)

    def _away(self, why: str) -> ServerAway:
        TOKENS.labels(self._server, "away").inc()
        return ServerAway(self._server, f"the issuer of tokens for {self._server} gives none: {why[:_LONGEST_WORDS]}")
