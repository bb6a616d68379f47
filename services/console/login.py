"""Who may come in to a team's console: whoever logs in at the issuer, or comes through a proxy with a token.

A page asks the gateway with the caller's own token and with no other, so what it shows is the gateway's to decide.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

import jwt
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.console.errors import AskedFromElsewhere, ConsoleError, IssuerAway, LoginFailed, NotLoggedIn, WrongMethod
from services.console.issuer import ASSUMED_LIFE_S, Begun, Issuer, RenewalRefused
from services.console.sessions import PART_CHARACTERS, Seal, Session, SessionCookies, SessionTooLarge, cookie
from services.console.showing import error_page, logged_out_page
from services.console.site import READING, Site, guarded, local_place, place_of
from services.console.team_caller import TeamCaller, name_in, serving_caller
from services.kit.identity.signed_tokens import MAX_TOKEN_LENGTH
from services.kit.telemetry.logs import get_logger

log = get_logger()
LOGIN, CALLBACK, LOGOUT, LOGGED_OUT = "/login", "/callback", "/logout", "/logged-out"
BEGUN: Final = "__Host-signalbox_login_"
# People look for their second factor meanwhile.
LOGIN_LIFE_S: Final = 900
# Of logins that a browser has begun, in as many tabs, as each takes its part of what a server takes of headers.
MOST_BEGUN: Final = 4
RENEW_BEFORE_S: Final = 30
BEARER: Final = "bearer "


def site_of(public_url: str) -> Site:
    """Returns the site of a console that browsers know by an address."""
    parts = urlsplit(public_url)
    return Site({parts.netloc}, parts.scheme)


class LoginEntrance:
    """Lets through who has logged in; everybody else logs in first."""

    def __init__(self, app: ASGIApp, issuer: Issuer, cookies: SessionCookies, begun: Seal, public_url: str) -> None:
        self._app = app
        self._issuer = issuer
        self._cookies = cookies
        self._begun = begun
        self._site = site_of(public_url)
        self._after_logout = f"{public_url.rstrip('/')}{LOGGED_OUT}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, or says what is to be done first."""
        if scope["type"] != "http":
            return  # websockets are not served; a server that is told nothing refuses them
        request = Request(scope)
        refusal = self._site.refusal(request)
        if refusal is not None:
            await error_page(AskedFromElsewhere(refusal), has_entered=False)(scope, receive, guarded(send))
            return
        try:
            await self._serve(request, receive, send)
        except ConsoleError as error:
            login = "" if isinstance(error, IssuerAway) else LOGIN
            await error_page(error, has_entered=False, login=login)(scope, receive, guarded(send))

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        path = request.url.path
        ways = {
            LOGIN: (READING, self._log_in),
            CALLBACK: (READING, self._come_back),
            LOGOUT: (("POST",), self._log_out),
            LOGGED_OUT: (READING, self._logged_out),
        }
        if path in ways:
            methods, answer = ways[path]
            if request.method not in methods:
                raise WrongMethod(f"{request.method} is no way to ask for {path}.")
            await (await answer(request))(request.scope, receive, guarded(send))
            return
        session, kept = await self._present(request)
        if session is None:
            await (await self._outside(request))(request.scope, receive, guarded(send))
            return

        def cookies() -> Sequence[str]:
            # Meanwhile the browser may have logged out.
            return () if self._issuer.has_ended(session) else kept

        with serving_caller(TeamCaller(session.token, session.name, session.ends_at, may_log_out=True)):
            await self._app(request.scope, receive, guarded(send, cookies))

    async def _present(self, request: Request) -> tuple[Session | None, Sequence[str]]:
        """Returns the session of a request with a token that is good, and the cookies that have changed."""
        session = self._cookies.session(request.cookies)
        if session is None or session.ends_at - time.time() > RENEW_BEFORE_S:
            return session, ()
        is_good = session.ends_at > time.time()
        if not session.refresh_token:
            return (session if is_good else None), ()
        try:
            renewed = await self._issuer.renewed(session)
            return renewed, self._kept(renewed, request)
        except RenewalRefused as refused:
            # Another replica may have renewed it, for a request whose answer this browser has not read yet.
            log.info("session not renewed", subject=session.subject, reason=str(refused))
            return (session if is_good else None), ()
        except IssuerAway:
            if not is_good:
                raise
            return session, ()

    async def _outside(self, request: Request) -> Response:
        """Has a browser log in and come back; what only a page can do with an answer is told of it."""
        mode = request.headers.get("sec-fetch-mode", "navigate")
        if request.method in READING and mode == "navigate":
            return await self._begin(request, place_of(request))
        ended = NotLoggedIn("There is no session, or it has ended.")
        return error_page(ended, has_entered=False, login=_login_to(request))

    async def _log_in(self, request: Request) -> Response:
        """Begins a login that comes back to the page that led here, where it says which that is."""
        path, _, query = request.query_params.get("from", "").partition("?")
        return await self._begin(request, local_place(unquote(path), query) if path else "")

    async def _begin(self, request: Request, place: str) -> Response:
        begun = await self._issuer.begin()
        response = RedirectResponse(begun.url, status_code=303)
        sealed = self._sealed(begun, place)
        if len(sealed) > PART_CHARACTERS:
            sealed = self._sealed(begun, "")  # better at another page than not at all
        for kept in (cookie(_of_state(begun.state), sealed, LOGIN_LIFE_S), *_surplus(request.cookies)):
            response.headers.append("set-cookie", kept)
        return response

    def _sealed(self, begun: Begun, place: str) -> str:
        return self._begun.seal({"place": place, **asdict(begun), "url": ""})

    async def _come_back(self, request: Request) -> Response:
        given = request.query_params
        name = _of_state(given.get("state", ""))
        content = self._begun.opened(request.cookies.get(name, ""), LOGIN_LIFE_S)
        if content is None or not secrets.compare_digest(content["state"].encode(), given.get("state", "").encode()):
            if self._cookies.session(request.cookies) is not None:
                return RedirectResponse("/runs", status_code=303)  # as a tab that came back late, or a second time
            raise LoginFailed("This browser has not begun this login, or too long ago.")
        place = content.pop("place")
        try:
            session = await self._end(given, Begun(**content))
            kept = self._kept(session, request)
        except LoginFailed as error:
            log.warning("login failed", reason=error.message)
            failed = error_page(error, has_entered=False, login=LOGIN)
            failed.headers.append("set-cookie", cookie(name, "", 0))
            return failed
        log.info("logged in", subject=session.subject)
        response = RedirectResponse(place or "/runs", status_code=303)
        for each in (*kept, cookie(name, "", 0)):
            response.headers.append("set-cookie", each)
        return response

    async def _end(self, given: Mapping[str, str], begun: Begun) -> Session:
        if not self._issuer.is_named(given.get("iss")):
            raise LoginFailed("Another issuer has answered.")
        if "error" in given:
            raise LoginFailed(f"The issuer says: {given['error']}. {given.get('error_description', '')}".strip())
        if not given.get("code"):
            raise LoginFailed("The issuer has sent no code.")
        return await self._issuer.end(given["code"], begun)

    async def _log_out(self, request: Request) -> Response:
        session, elsewhere = self._cookies.session(request.cookies), ""
        try:
            if session is not None:
                await self._issuer.forget(session)
        except (IssuerAway, LoginFailed) as error:
            log.warning("refresh token not taken back", reason=error.message)
        try:
            elsewhere = await self._issuer.logout_url(self._after_logout)
        except (IssuerAway, LoginFailed) as error:
            log.warning("logged out here alone", reason=error.message)
        # Not a redirect: what a form may lead to is this site (`form-action`), also by way of one.
        response = logged_out_page(elsewhere)
        for each in self._cookies.ended(request.cookies):
            response.headers.append("set-cookie", each)
        return response

    async def _logged_out(self, _request: Request) -> Response:
        return logged_out_page("")

    def _kept(self, session: Session, request: Request) -> list[str]:
        try:
            return self._cookies.kept(session, request.cookies)
        except SessionTooLarge as error:
            raise LoginFailed(f"{str(error)[0].upper()}{str(error)[1:]}, which is more than cookies hold.") from error


class ForwardedEntrance:
    """Lets through who comes with a token that a proxy hands on in a header; a header with a name is not read.

    The token is the caller's own, whoever put it there, and the gateway verifies it.
    """

    def __init__(self, app: ASGIApp, header: str, public_url: str) -> None:
        self._app = app
        self._header = header
        self._site = site_of(public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, or refuses it."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        refusal = self._site.refusal(request)
        if refusal is not None:
            await error_page(AskedFromElsewhere(refusal), has_entered=False)(scope, receive, guarded(send))
            return
        token = self._token(request)
        if not token:
            missing = NotLoggedIn(f"The proxy before the console hands on no token in {self._header}.")
            await error_page(missing, has_entered=False)(scope, receive, guarded(send))
            return
        with serving_caller(_bearer_of(token)):
            await self._app(scope, receive, guarded(send))

    def _token(self, request: Request) -> str:
        given = request.headers.getlist(self._header)
        text = given[0].strip() if len(given) == 1 else ""
        if text[: len(BEARER)].lower() == BEARER:
            text = text[len(BEARER) :].strip()
        is_token = text.isascii() and text.isprintable() and " " not in text and len(text) <= MAX_TOKEN_LENGTH
        return text if is_token else ""


def _bearer_of(token: str) -> TeamCaller:
    """Returns the caller of a token, by the name in it, which is shown to who has brought it and believed by nobody."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        claims = {}
    # Only how long a stream is left open: the gateway decides what the token is good for.
    said = claims.get("exp")
    ends_at = float(said) if isinstance(said, int | float) else time.time() + ASSUMED_LIFE_S
    return TeamCaller(token, name_in(claims), ends_at, may_log_out=False)


def _login_to(request: Request) -> str:
    """Returns where to log in so as to come back to the page whose form this is, where the browser says which."""
    origin, page = request.headers.get("origin", ""), request.headers.get("referer", "")
    is_known = origin and page.startswith(f"{origin}/")
    return f"{LOGIN}?{urlencode({'from': page.removeprefix(origin)})}" if is_known else LOGIN


def _of_state(state: str) -> str:
    return f"{BEGUN}{hashlib.sha256(state.encode()).hexdigest()[:16]}"


def _surplus(cookies: Mapping[str, str]) -> Sequence[str]:
    """Returns the ends of logins that a browser has begun, where they are too many."""
    begun = [name for name in cookies if name.startswith(BEGUN)]
    return [cookie(name, "", 0) for name in begun] if len(begun) >= MOST_BEGUN else []
