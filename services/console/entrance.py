"""Who may come in at loopback: this machine's browser, once it has shown the token that the console printed.

Other sites can't send its cookie (`SameSite=Strict`), nor what `services.console.site` keeps from them.
"""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.console.errors import BrowserNotPaired
from services.console.showing import error_page
from services.console.site import Site, guarded, place_of

HTTP_PORT = 80


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
        self._site = Site({f"{name}{each}" for name in ("127.0.0.1", "localhost") for each in ports}, "http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, or refuses it."""
        if scope["type"] != "http":
            return  # websockets are not served; a server that is told nothing refuses them
        request = Request(scope)
        refusal = self._site.refusal(request)
        if refusal is not None:
            answer: ASGIApp = error_page(BrowserNotPaired(refusal), has_entered=False)
        elif "token" in request.query_params and request.url.path == "/":
            answer = self._enter(request)
        elif not _same(request.cookies.get(self._cookie, ""), self._pass):
            # A link from elsewhere arrives without the cookie; one in the console's own page has it.
            outside = BrowserNotPaired("It has not shown the token of this console.")
            answer = error_page(outside, has_entered=False, here=place_of(request))
        else:
            answer = self._app
        await answer(scope, receive, guarded(send))

    def _enter(self, request: Request) -> Response:
        if not _same(request.query_params["token"], self._token):
            return error_page(BrowserNotPaired("The token in its address is not this console's."), has_entered=False)
        # The token leaves the address bar.
        response = RedirectResponse("/runs", status_code=303)
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict", path="/")
        return response


def _same(given: str, wanted: str) -> bool:
    """Compares secrets in a time that tells nothing of either."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
