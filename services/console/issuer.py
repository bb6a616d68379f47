"""The issuer of callers' tokens, as the console logs people in there: OpenID Connect, authorization code with PKCE.

Authlib speaks the protocol. What it leaves to its users is here: that the discovered issuer is the one that was set,
that an ID token came and is for this client, which algorithms may sign it, and one renewal for all requests at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.integrations.starlette_client import StarletteOAuth2App
from joserfc.errors import JoseError

from services.console.errors import IssuerAway, LoginFailed
from services.console.sessions import Session
from services.console.settings import is_sealed_way
from services.console.team_caller import name_in
from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import detached

log = get_logger()
TIMEOUT_S: Final = 10.0
# Of the issuer's clock against this one.
CLOCK_SKEW_S: Final = 30
# With a shared secret, whoever knows the client's could sign; `none` is no signature.
ALGORITHMS: Final = (
    "EdDSA",
    "Ed25519",
    "ES256",
    "ES384",
    "ES512",
    "PS256",
    "PS384",
    "PS512",
    "RS256",
    "RS384",
    "RS512",
)
# Of an access token whose issuer does not say.
ASSUMED_LIFE_S: Final = 300
# Requests that were on their way with the refresh token of before come within this time.
RENEWAL_STANDS_S: Final = 60.0
# What an issuer says in the place of a status: it refuses nothing for good.
NOT_NOW: Final = ("temporarily_unavailable", "server_error")
MOST_RENEWALS: Final = 2048
# Of its discovery document, whatever browsers or the console are sent to.
ENDPOINTS: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "revocation_endpoint",
    "end_session_endpoint",
)
LOGGED_OUT: Final = "it was logged out"
REFUSALS: Final = (400, 401)
ID_TOKEN: Final = "id_token"  # noqa: S105 - a name


class RenewalRefused(Exception):
    """The issuer gives no new token for a refresh token."""


@dataclass(frozen=True)
class Client:
    """What the console is to the issuer; `token` names which of its tokens the gateway takes."""

    issuer: str
    client_id: str
    secret: str | None
    scope: str
    token: str
    parameters: Mapping[str, str]
    redirect_url: str


@dataclass(frozen=True)
class Begun:
    """A login that has begun: where it goes on, and what its end has to fit."""

    url: str
    state: str
    nonce: str
    code_verifier: str


class Issuer:
    """Logs people in. Every method raises IssuerAway, and LoginFailed where the issuer or its tokens say no."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._app = StarletteOAuth2App(
            None,
            "issuer",
            client_id=client.client_id,
            client_secret=client.secret,
            server_metadata_url=f"{client.issuer.rstrip('/')}/.well-known/openid-configuration",
            authorize_params=dict(client.parameters),
            client_kwargs={"scope": client.scope, "code_challenge_method": "S256", "timeout": TIMEOUT_S},
            compliance_fix=_heed_status,
        )
        self._renewals: OrderedDict[str, tuple[float, asyncio.Task[Session]]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def begin(self) -> Begun:
        """Begins a login."""
        await self._metadata()
        with self._asking():
            begun = await self._app.create_authorization_url(self._client.redirect_url)
        return Begun(begun["url"], begun["state"], begun["nonce"], begun["code_verifier"])

    async def end(self, code: str, begun: Begun) -> Session:
        """Returns the session of a login that has come back with a code."""
        await self._metadata()
        with self._asking():
            tokens = await self._app.fetch_access_token(
                self._client.redirect_url, code=code, code_verifier=begun.code_verifier
            )
            session = self._session(tokens, await self._claims(tokens, begun.nonce))
        if session.ends_at <= session.begun_at:
            raise LoginFailed("The token of the issuer has ended already: one of the two clocks is off.")
        self._ended.pop(_key(session), None)  # some issuers give the same refresh token again
        return session

    async def renewed(self, session: Session) -> Session:
        """Returns a session with a new token, for which the issuer is asked once. Raises RenewalRefused."""
        if self.has_ended(session):
            raise RenewalRefused(LOGGED_OUT)
        key = _key(session)
        now = time.monotonic()
        begun_at, task = self._renewals.get(key, (0.0, None))
        if task and task.done() and task.exception() is None and task.result().ends_at <= time.time():
            if _key(task.result()) != key:  # a refresh token that is good once was used up
                return await self.renewed(task.result())
            task = None
        if task is None or now - begun_at > RENEWAL_STANDS_S or (task.done() and task.exception() is not None):
            task = detached(self._renew(session))
            self._renewals[key] = (now, task)
            self._renewals.move_to_end(key)
        while len(self._renewals) > MOST_RENEWALS:
            self._renewals.popitem(last=False)
        renewed = await asyncio.shield(task)
        if self.has_ended(session) or self.has_ended(renewed):
            raise RenewalRefused(LOGGED_OUT)
        return renewed

    def has_ended(self, session: Session) -> bool:
        """Says whether a session has been forgotten here, by itself or with what it was renewed from."""
        return _key(session) in self._ended

    async def forget(self, session: Session) -> None:
        """Takes a refresh token back, where the issuer lets one; with it a session that was copied ends as well.

        So it does with what the session was renewed to, also where the browser has not read that yet.
        """
        tokens = await self._end_line(session)
        metadata = await self._metadata()
        where = metadata.get("revocation_endpoint")
        if not where:
            return
        with self._asking():
            async with self._app._get_oauth_client(**metadata) as client:
                for token in reversed(tokens):
                    (await client.revoke_token(where, token=token)).raise_for_status()

    async def logout_url(self, back: str) -> str:
        """Returns where a browser logs out of the issuer and comes back from; empty where there is no such place."""
        where = (await self._metadata()).get("end_session_endpoint")
        if not where:
            return ""
        # Not with the ID token as a hint: it would have to be kept for that, and be in an address.
        url: str = add_params_to_uri(where, {"client_id": self._client.client_id, "post_logout_redirect_uri": back})
        return url

    def is_named(self, issuer: str | None) -> bool:
        """Says whether an answer that names its issuer (RFC 9207) comes from this one."""
        return issuer in (None, self._client.issuer)

    async def _end_line(self, session: Session) -> Sequence[str]:
        """Ends a session and what it was renewed to, for which it waits; returns their refresh tokens, newest last."""
        line: dict[str, str] = {}
        while session.refresh_token and (key := _key(session)) not in line:
            line[key] = session.refresh_token
            self._ended[key] = None
            _, task = self._renewals.pop(key, (0.0, None))
            if task is None:
                break
            await asyncio.wait((task,))
            if task.cancelled() or task.exception() is not None:
                break
            session = task.result()
        while len(self._ended) > MOST_RENEWALS:
            self._ended.popitem(last=False)
        return list(line.values())

    async def _renew(self, session: Session) -> Session:
        try:
            metadata = await self._metadata()
        except LoginFailed as error:  # which says nothing of the refresh token
            raise IssuerAway(error.message) from error
        try:
            with self._asking():
                async with self._app._get_oauth_client(**metadata) as client:
                    tokens = await client.refresh_token(metadata["token_endpoint"], refresh_token=session.refresh_token)
                claims = await self._claims(tokens, None) if ID_TOKEN in tokens else {}
                if claims.get("sub", session.subject) != session.subject:
                    raise RenewalRefused("the issuer has renewed the token of somebody else")
                if self._client.token == ID_TOKEN and ID_TOKEN not in tokens:
                    raise RenewalRefused("the issuer has renewed no ID token")
                renewed = self._session(tokens, {"sub": session.subject, **claims})
        except LoginFailed as error:
            raise RenewalRefused(error.message) from error
        return replace(
            renewed,
            refresh_token=renewed.refresh_token or session.refresh_token,
            begun_at=session.begun_at,
            name=renewed.name if claims else session.name,
        )

    async def _metadata(self) -> dict[str, Any]:
        with self._asking():
            metadata: dict[str, Any] = await self._app.load_server_metadata()
            wrong = self._wrong_in(metadata)
            if wrong:
                self._app.server_metadata.clear()  # it may be set right
                raise LoginFailed(wrong)
            offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            metadata["id_token_signing_alg_values_supported"] = [each for each in offered if each in ALGORITHMS]
        return metadata

    def _wrong_in(self, metadata: Mapping[str, Any]) -> str:
        """Returns why discovery is not to be believed; empty where it is."""
        if metadata.get("issuer") != self._client.issuer:
            return f"The issuer calls itself {metadata.get('issuer')}, and the console was told {self._client.issuer}."
        is_tls = urlsplit(self._client.issuer).scheme == "https"
        for name in ENDPOINTS:
            url = metadata.get(name)
            if url and not (urlsplit(url).scheme == "https" if is_tls else is_sealed_way(url)):
                return f"The issuer names a {name} without TLS, {url}."
        return ""

    async def _claims(self, tokens: Mapping[str, Any], nonce: str | None) -> dict[str, Any]:
        if not tokens.get(ID_TOKEN):
            raise LoginFailed("The issuer has sent no ID token; the scope has to name openid.")
        wanted = {
            "iss": {"essential": True, "value": self._client.issuer},
            "aud": {"essential": True, "value": self._client.client_id},
        }
        return dict(await self._app.parse_id_token(tokens, nonce, claims_options=wanted, leeway=CLOCK_SKEW_S))

    def _session(self, tokens: Mapping[str, Any], claims: Mapping[str, Any]) -> Session:
        now = time.time()
        if not isinstance(tokens[self._client.token], str):
            raise TypeError(f"{self._client.token} is no text")
        is_id_token = self._client.token == ID_TOKEN
        return Session(
            token=tokens[self._client.token],
            refresh_token=tokens.get("refresh_token") or "",
            ends_at=float(claims["exp"]) if is_id_token else now + float(tokens.get("expires_in") or ASSUMED_LIFE_S),
            begun_at=now,
            subject=claims["sub"],
            name=name_in(dict(claims)),
        )

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except httpx2.HTTPError as error:
            log.warning("issuer away", issuer=self._client.issuer, error=repr(error))
            raise IssuerAway(f"{self._client.issuer} does not answer.") from error
        except OAuthError as error:
            if error.error in NOT_NOW:
                log.warning("issuer away", issuer=self._client.issuer, error=repr(error))
                raise IssuerAway(f"{self._client.issuer} does not answer.") from error
            raise LoginFailed(f"The issuer says: {error.error}. {error.description or ''}".strip()) from error
        except JoseError as error:
            log.warning("token of the issuer refused", issuer=self._client.issuer, error=str(error))
            raise LoginFailed(f"The ID token of the issuer is not for this login: {error}") from error
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError) as error:
            log.warning("issuer answers oddly", issuer=self._client.issuer, error=repr(error))
            raise IssuerAway(f"{self._client.issuer} answers what is no answer of an issuer.") from error


def _heed_status(client: AsyncOAuth2Client) -> None:
    """Has a client take a refusal for one where its status is one: Authlib looks for `error` in all but a 5xx."""
    for answer in ("access_token_response", "refresh_token_response"):
        client.register_compliance_hook(answer, _answer)


def _answer(response: httpx2.Response) -> httpx2.Response:
    return response if response.status_code in REFUSALS else response.raise_for_status()


def _key(session: Session) -> str:
    return hashlib.sha256(session.refresh_token.encode()).hexdigest()
