"""The site that a console is: by which names it is asked for, who may write to it, and what browsers are told.

Other sites know a console's address as well as its users do. What they can't do: name it (a name of theirs that leads
to it is another `Host`), write (`Origin`), or read what comes back (no CORS).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Send

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


class Site:
    """The hosts that a console answers to, and the origins whose pages may write to it."""

    def __init__(self, hosts: Collection[str], scheme: str) -> None:
        self._hosts = [[host] for host in hosts]
        self._origins = {f"{scheme}://{host}" for host in hosts}

    def refusal(self, request: Request) -> str | None:
        """Returns why a request is not one of this site's own; None if it is."""
        if request.headers.getlist("host") not in self._hosts:
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


def guarded(send: Send, cookies: Callable[[], Collection[str]] = tuple) -> Send:
    """Returns what sends an answer with what every answer tells the browser, and with cookies to keep by then."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_headers(message, cookies())
        await send(message)

    return send_with_headers


def place_of(request: Request) -> str:
    """Returns what was asked for as an address of this site, whatever slashes it begins with; empty if it wrote."""
    return local_place(request.url.path, request.url.query) if request.method in READING else ""


def local_place(path: str, query: str = "") -> str:
    """Returns an address of this site and of no other, whatever slashes a path begins with."""
    path = "/" + quote(path.lstrip("/\\"))
    return f"{path}?{query}" if query else path


def _add_headers(message: MutableMapping[str, Any], cookies: Collection[str]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
    for cookie in cookies:
        headers.append("set-cookie", cookie)
