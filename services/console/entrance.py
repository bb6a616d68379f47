"""Who may come in: this machine's browser, once it has shown the token that the console printed at its start.

Other sites know the console's address as well as its user does. What they can't do: name it (a name of theirs that
leads to loopback is another `Host`), send its cookie (`SameSite=Strict`), write (`Origin`), or read what comes back
(no CORS).
"""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.console.errors import BrowserNotPaired
from services.console.showing import error_page

HTTP_PORT = 80
READING = frozenset(("GET", "HEAD"))
# Nothing but what the console itself serves: no script or style in a page, no frame around one, no request elsewhere.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`, by which browsers leave out the origin of forms as well.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Entrance:
    """Lets through what comes from the user's browser; tells everybody else where to come in, and no more."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        # Another secret than the one in the address, which stays in the browser's history.
        self._pass = secrets.token_urlsafe(32)
        # Cookies are a host's, not a port's: two consoles must not take each other's.
        self._cookie = f"signalbox_console_{port}"
        # Of the port that a browser takes by itself, it says nothing.
        ports = (f":{port}", "") if port == HTTP_PORT else (f":{port}",)
        self._hosts = {f"{name}{each}" for name in ("127.0.0.1", "localhost") for each in ports}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, or refuses it."""
        if scope["type"] != "http":
            return  # websockets are not served; a server that is told nothing refuses them

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        if refusal is not None:
            await error_page(BrowserNotPaired(refusal), has_entered=False)(scope, receive, guarded)
        elif "token" in request.query_params and request.url.path == "/":
            await self._enter(request)(scope, receive, guarded)
        elif not _same(request.cookies.get(self._cookie, ""), self._pass):
            # A link from elsewhere arrives without the cookie; one in the console's own page has it.
            outside = BrowserNotPaired("It has not shown the token of this console.")
            await error_page(outside, has_entered=False, here=_here(request))(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, request: Request) -> str | None:
        if request.headers.getlist("host") not in [[host] for host in self._hosts]:
            return "It asks for a host that this console is not."
        origins = request.headers.getlist("origin")
        if any(origin not in self._origins for origin in origins):
            return "It asks on behalf of another site."
        if request.method not in READING and not origins:
            return "It does not say on behalf of which site it writes."
        site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
        if site in ("cross-site", "same-site") and (mode != "navigate" or request.method not in READING):
            return "It asks on behalf of another site."
        return None

    def _enter(self, request: Request) -> Response:
        if not _same(request.query_params["token"], self._token):
            return error_page(BrowserNotPaired("The token in its address is not this console's."), has_entered=False)
        # The token leaves the address bar.
        response = RedirectResponse("/runs", status_code=303)
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict", path="/")
        return response


def _here(request: Request) -> str:
    """Returns what was asked for as an address of this console, whatever slashes it begins with; empty if it wrote."""
    if request.method not in READING:
        return ""
    path = "/" + quote(request.url.path.lstrip("/\\"))
    return f"{path}?{request.url.query}" if request.url.query else path


def _same(given: str, wanted: str) -> bool:
    """Compares secrets in a time that tells nothing of either."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
