"""What a login has of an issuer that is slow, or says something else than what is wanted of it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from services.console.errors import IssuerAway, LoginFailed
from services.console.issuer import Client, Issuer, RenewalRefused
from services.console.login import LoginEntrance
from services.console.sessions import SESSION, Seal, Session, SessionCookies
from tests.fixtures.oidc_issuer import CLIENT_ID, CLIENT_SECRET, OidcIssuer
from tests.integration.console.team import TeamConsole

BASE = "https://console.example"
KEYS = [secrets.token_urlsafe(32)]
COOKIES = SessionCookies(Seal(KEYS, "session"), 3600)


@pytest.fixture
async def oidc() -> AsyncIterator[OidcIssuer]:
    async with OidcIssuer(expires_in=20).serving() as issuer:  # less than what is left when a token is renewed
        yield issuer


@pytest.fixture
def issuer(oidc: OidcIssuer) -> Issuer:
    """The issuer as the console asks it."""
    return Issuer(Client(oidc.url, CLIENT_ID, CLIENT_SECRET, "openid profile", "access_token", {}, f"{BASE}/callback"))


class Pages:
    """What is behind the entrance: a page that says nothing, once it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with a page."""
        self.asked += 1
        await self.answers.wait()
        await PlainTextResponse("A page.")(scope, receive, send)


@pytest.fixture
def pages() -> Pages:
    return Pages()


@asynccontextmanager
async def browser(issuer: Issuer, pages: Pages, person: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
    """A browser of who has logged in."""
    entrance = LoginEntrance(pages, issuer, COOKIES, Seal(KEYS, "login"), BASE)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(entrance), base_url=BASE) as client:
        assert (await client.get(await TeamConsole(BASE, Path()).sent_back(client, person))).status_code == 303
        client.headers["origin"] = BASE
        yield client


def sessions_of(client: httpx.AsyncClient) -> list[str]:
    """The cookies of a session that a browser has."""
    return [name for name in client.cookies if name.startswith(SESSION)]


def session_of(client: httpx.AsyncClient) -> Session:
    """The session that a browser has."""
    session = COOKIES.session(client.cookies)
    assert session is not None
    return session


async def until(holds: Callable[[], object]) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - nothing says when it does
            await asyncio.sleep(0.01)


class TestLoggingOut:
    async def test_a_renewal_on_its_way_brings_no_session_back(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages
    ) -> None:
        async with browser(issuer, pages) as client:
            session = session_of(client)
            oidc.answers.clear()
            looking = asyncio.create_task(client.get("/runs"))
            await until(lambda: oidc.renewals)
            leaving = asyncio.create_task(client.post("/logout"))
            await until(lambda: issuer.has_ended(session))
            oidc.answers.set()
            assert [(await each).status_code for each in (leaving, looking)] == [200, 200]
            assert sessions_of(client) == []
        assert (len(oidc.revoked), oidc.refresh_tokens) == (2, {})

    async def test_nor_does_a_page_that_is_answered_later(self, oidc: OidcIssuer, issuer: Issuer, pages: Pages) -> None:
        async with browser(issuer, pages) as client:
            pages.answers.clear()
            looking = asyncio.create_task(client.get("/runs"))
            await until(lambda: pages.asked)
            assert (await client.post("/logout")).status_code == 200
            pages.answers.set()
            assert ((await looking).status_code, sessions_of(client)) == (200, [])
        assert oidc.refresh_tokens == {}

    @pytest.mark.parametrize("rotates", [True, False])
    @pytest.mark.parametrize("with_the_first", [True, False])
    async def test_a_copied_cookie_is_not_renewed_from_what_the_console_remembers(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages, rotates: bool, with_the_first: bool
    ) -> None:
        oidc.rotates = rotates
        async with browser(issuer, pages) as client:
            first = session_of(client)
            renewed = await issuer.renewed(first)
            assert await issuer.renewed(first) == renewed
            await issuer.forget(first if with_the_first else renewed)
            for each in (first, renewed):
                with pytest.raises(RenewalRefused):
                    await issuer.renewed(each)
        assert (oidc.renewals, oidc.refresh_tokens) == (1, {})

    async def test_a_token_that_is_not_taken_back_is_said_and_not_renewed_here(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages
    ) -> None:
        async with browser(issuer, pages) as client:
            session, oidc.is_broken = session_of(client), True
            with pytest.raises(IssuerAway):
                await issuer.forget(session)
            left = await client.post("/logout")
            assert (left.status_code, f"{oidc.url}/logout?" in left.text, sessions_of(client)) == (200, True, [])
            oidc.is_broken = False
            with pytest.raises(RenewalRefused):
                await issuer.renewed(session)


class TestRenewing:
    @pytest.mark.parametrize(
        "odd",
        [
            (429, {"message": "too many requests"}), (429, {"error": "rate_limited"}), (403, {"error": "blocked"}),
            (400, {"error": "temporarily_unavailable"}), (400, {}), (200, {"token_type": "Bearer"}), (200, [1]),
            (200, {"access_token": None}), (200, {"access_token": "a", "expires_in": "soon"}), (302, {}),
        ],
    )  # fmt: skip
    async def test_an_odd_answer_is_no_refusal(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages, odd: tuple[int, object]
    ) -> None:
        async with browser(issuer, pages) as client:
            session, oidc.odd_answer = session_of(client), odd
            assert (await client.get("/runs")).status_code == 200  # with a token that is still good
            with pytest.raises(IssuerAway):
                await issuer.renewed(session)
            failed = await client.get(await TeamConsole(BASE, Path()).sent_back(client, "ann"))
            assert failed.status_code in (403, 503)
            oidc.odd_answer = None
            assert (await issuer.renewed(session)).refresh_token != session.refresh_token

    @pytest.mark.parametrize("odd", [(400, {"error": "invalid_grant"}), (401, {"error": "invalid_client"})])
    async def test_a_refusal_is_one(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages, odd: tuple[int, object]
    ) -> None:
        async with browser(issuer, pages) as client:
            oidc.odd_answer = odd
            with pytest.raises(RenewalRefused):
                await issuer.renewed(session_of(client))

    @pytest.mark.parametrize("rotates", [True, False])
    async def test_a_token_that_has_ended_since_is_renewed_anew(
        self, oidc: OidcIssuer, issuer: Issuer, pages: Pages, rotates: bool
    ) -> None:
        oidc.rotates = rotates
        async with browser(issuer, pages) as client:
            oidc.expires_in, session = 1, session_of(client)
            first = await issuer.renewed(session)
            await until(lambda: first.ends_at <= time.time())
            oidc.expires_in = 20
            both = await asyncio.gather(issuer.renewed(session), issuer.renewed(session))
            assert both[0] == both[1]
            assert both[0].ends_at > time.time()
            await issuer.forget(session)
            with pytest.raises(RenewalRefused):
                await issuer.renewed(both[0])
        assert (oidc.renewals, oidc.refresh_tokens) == (2, {})

    async def test_an_issuer_that_calls_itself_otherwise_ends_no_session(self, issuer: Issuer, pages: Pages) -> None:
        async with browser(issuer, pages) as client:
            issuer._app.server_metadata["issuer"] = "https://other.example"
            assert (await client.get("/runs")).status_code == 200
            assert await issuer.renewed(session_of(client))


@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "revocation_endpoint", "end_session_endpoint"]
)
@pytest.mark.parametrize(
    ("own", "url"), [("", "http://login.example/here"), ("https://login.example", "http://127.0.0.1/here"), ("", 7)]
)
async def test_an_endpoint_without_tls_is_not_asked(
    oidc: OidcIssuer, issuer: Issuer, name: str, own: str, url: object
) -> None:
    own = own or oidc.url
    told = {"_loaded_at": 1, "issuer": own, "token_endpoint": f"{own}/token", name: url}
    issuer._client = replace(issuer._client, issuer=own)
    issuer._app.server_metadata.update(told)
    with pytest.raises((LoginFailed, IssuerAway)) as refused:
        await issuer.begin()
    assert "login.example" in str(refused.value) or "127.0.0.1" in str(refused.value)
    assert oidc.asked == []


@pytest.mark.parametrize(("length", "is_kept"), [(1500, True), (5000, False)])
async def test_a_login_fits_its_cookie_however_long_the_address_was(
    issuer: Issuer, pages: Pages, length: int, is_kept: bool
) -> None:
    place = f"/runs?words={secrets.token_urlsafe(length)[:length]}"
    async with browser(issuer, pages) as client:
        client.cookies.clear()
        led = await client.get(place)
        kept = [each for each in led.headers.get_list("set-cookie") if "login" in each]
        assert kept
        assert all(len(each) <= 4096 for each in kept)
        back = await TeamConsole(BASE, Path()).sent_back(client, "ann", place)
        assert (await client.get(back)).headers["location"] == (place if is_kept else "/runs")
