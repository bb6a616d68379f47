"""Who comes in to a team's console: whoever the issuer says it is, as long as it says so, and with their own rights."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import grpc
import httpx
import jwt
import pytest
from signalbox.v1 import runs_pb2

from services.console.sessions import SESSION, Seal, Session, SessionCookies
from tests.fixtures.certificates import Authority
from tests.fixtures.oidc_issuer import AUDIENCE, OidcIssuer
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.console.fake_gateway import FakeGateway, fake_gateway, refusal, serving
from tests.integration.console.team import Team, TeamConsole, credentials_of
from tests.integration.console.test_entrance import check_headers

FORM = {"input_request_id": "q", "option": "approve"}


@pytest.fixture
def gateway() -> FakeGateway:
    return fake_gateway(explained(asks="Go on?"))


@pytest.fixture
async def team(gateway: FakeGateway, tmp_path: Path) -> AsyncIterator[Team]:
    certificate = Authority(tmp_path).issue("console")
    async with (
        OidcIssuer().serving() as issuer,
        serving(gateway, credentials=credentials_of(certificate)) as port,
    ):
        yield Team(tmp_path, certificate, port, issuer)


@pytest.fixture
async def console(team: Team) -> AsyncIterator[TeamConsole]:
    async with team.console() as served:
        yield served


def callers(gateway: FakeGateway) -> set[str]:
    """Whose tokens the gateway was asked with."""
    tokens = [each.removeprefix("Bearer ") for each in gateway.tokens]
    return {jwt.decode(each, options={"verify_signature": False}, audience=AUDIENCE)["sub"] for each in tokens}


async def test_who_logs_in_comes_to_the_page_that_they_asked_for(console: TeamConsole, gateway: FakeGateway) -> None:
    async with console.stranger() as client:
        back = await console.sent_back(client, "ann", "/runs?agent=data_chat")
        entered = await client.get(back)
        assert (entered.status_code, entered.headers["location"]) == (303, "/runs?agent=data_chat")
        check_headers(entered)
        page = await client.get("/runs")
        assert (page.status_code, RUN_ID in page.text, "Ann" in page.text) == (200, True, True)
        check_headers(page)
        cookies = [each for each in entered.headers.get_list("set-cookie") if SESSION in each]
        assert cookies
        for each in cookies:
            assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} <= set(each.split("; ")), each
            assert "Domain" not in each
        for token in gateway.tokens:
            assert token.removeprefix("Bearer ") not in f"{page.text}{entered.headers}"
    assert callers(gateway) == {"ann"}


async def test_everybody_asks_with_their_own_token(console: TeamConsole, gateway: FakeGateway) -> None:
    async with console.browser("ann") as ann, console.browser("ben") as ben:
        named = {"x-forwarded-user": "root", "x-forwarded-access-token": "root", "authorization": "Bearer root"}
        pages = await asyncio.gather(*(each.get("/runs", headers=named) for each in [ann, ben] * 5))
        names = ["Ann", "Ben"] * 5
        assert [name in page.text for name, page in zip(names, pages, strict=True)] == [True] * 10
        assert not any(other in page.text for other, page in zip(["Ben", "Ann"] * 5, pages, strict=True))
    assert callers(gateway) == {"ann", "ben"}


async def test_nothing_is_there_for_who_has_not_logged_in(console: TeamConsole, gateway: FakeGateway) -> None:
    async with console.stranger() as client:
        for path in ("/", f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/events", "/static/console.css", "/nowhere"):
            led = await client.get(path)
            assert (led.status_code, RUN_ID in led.text) == (303, False)
            assert led.headers["location"].startswith("http://127.0.0.1:")
            check_headers(led)
            client.cookies.clear()
            fetched = await client.get(path, headers={"sec-fetch-mode": "cors"})
            assert (fetched.status_code, fetched.headers.get("location")) == (401, None)
        for path in (f"/questions/{RUN_ID}", "/new", f"/runs/{RUN_ID}/cancel"):
            written = await client.post(path, data=FORM, headers={"origin": console.base})
            assert (written.status_code, "not logged in" in written.text) == (401, True)
    assert gateway.calls == []


async def test_who_sends_a_form_too_late_comes_back_to_its_page(console: TeamConsole) -> None:
    place = f"/runs/{RUN_ID}?x=1"
    async with console.stranger() as client:
        sent = {"origin": console.base, "referer": f"{console.base}{place}"}
        refused = await client.post(f"/runs/{RUN_ID}/cancel", headers=sent)
        login = f"/login?{urlencode({'from': place})}"
        assert (refused.status_code, f'href="{login}"' in refused.text) == (401, True)
        back = await console.sent_back(client, "ann", f"{console.base}{login}")
        assert (await client.get(back)).headers["location"] == place
        client.cookies.clear()
        elsewhere = await client.post("/new", headers={**sent, "referer": "https://evil.example/"})
        assert 'href="/login"' in elsewhere.text


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example/", "///evil.example", "/%2F/evil.example"])
async def test_nobody_is_led_elsewhere_after_the_login(console: TeamConsole, path: str) -> None:
    async with console.stranger() as client:
        led = await client.get(httpx.URL(f"{console.base}{path}"))
        back = await console.sent_back(client, "ann", f"{console.base}{path}")
        place = (await client.get(back)).headers["location"]
        assert httpx.URL(console.base).join(place).host == "localhost"
        assert place[1:2] not in ("/", "\\")
        assert parse_qs(urlsplit(led.headers["location"]).query)["redirect_uri"] == [f"{console.base}/callback"]


@pytest.mark.parametrize(
    ("page", "place"),
    [
        (f"/runs/{RUN_ID}?x=1", f"/runs/{RUN_ID}?x=1"),
        ("//evil.example/", "/evil.example/"),
        ("https://evil.example", "/https%3A//evil.example"),
        ("/%5Cevil.example", "/evil.example"),
        ("", "/runs"),
    ],
)
async def test_a_login_that_a_page_leads_to_comes_back_to_it(console: TeamConsole, page: str, place: str) -> None:
    async with console.stranger() as client:
        login = f"{console.base}/login?{urlencode({'from': page})}"
        back = await console.sent_back(client, "ann", login)
        assert (await client.get(back)).headers["location"] == place


async def test_a_login_that_this_browser_has_not_begun_ends_nowhere(console: TeamConsole) -> None:
    async with console.stranger() as attacker, console.stranger() as victim:
        attackers = await console.sent_back(attacker, "mallory")
        own = await console.sent_back(victim, "ann")
        state = parse_qs(urlsplit(own).query)["state"][0]
        wrong = own.replace(state, secrets.token_urlsafe(30))
        for address in (attackers, wrong, own.replace(f"state={state}", ""), f"{console.base}/callback"):
            refused = await victim.get(address)
            assert (refused.status_code, SESSION in str(refused.headers)) == (403, False)
            check_headers(refused)
        assert (await victim.get(own)).status_code == 303


async def test_a_code_is_good_once(console: TeamConsole, team: Team) -> None:
    async with console.stranger() as client:
        back = await console.sent_back(client, "ann")
        pending = httpx.Cookies(client.cookies)
        assert (await client.get(back)).status_code == 303
        # In the same browser there is a session already; whoever has copied its cookies of before is refused.
        assert (await client.get(back)).headers["location"] == "/runs"
    async with console.stranger(pending) as thief:
        refused = await thief.get(back)
        assert (refused.status_code, "not good any more" in refused.text) == (403, True)
        assert SESSION not in str(refused.headers)
    assert team.issuer.asked == ["authorization_code"] * 2


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"nonce": "another"}, "nonce"), ({"nonce": None}, "nonce"), ({"aud": "another"}, "aud"),
        ({"aud": "another", "azp": "signalbox-console"}, "aud"), ({"iss": "http://evil.example"}, "iss"),
        ({"exp": 1}, "expired"), ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"), ({"sub": None}, "sub"),
    ],
)  # fmt: skip
async def test_an_id_token_that_is_for_something_else_lets_nobody_in(
    console: TeamConsole, team: Team, wrong: dict[str, object], word: str
) -> None:
    team.issuer.others = wrong
    async with console.stranger() as client:
        refused = await client.get(await console.sent_back(client, "ann"))
        assert (refused.status_code, word in refused.text) == (403, True), refused.text
        assert SESSION not in str(refused.headers)
        assert (await client.get("/runs")).headers["location"].startswith(team.issuer.url)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
async def test_an_id_token_that_no_key_of_the_issuer_signed_lets_nobody_in(
    console: TeamConsole, team: Team, algorithm: str
) -> None:
    team.issuer.algorithm = algorithm
    async with console.stranger() as client:
        refused = await client.get(await console.sent_back(client, "ann"))
        assert (refused.status_code, SESSION in str(refused.headers)) == (403, False)


@pytest.mark.parametrize(("apart_s", "status"), [(-20, 303), (20, 303), (300, 403)])
async def test_the_issuers_clock_may_be_a_little_off(
    console: TeamConsole, team: Team, apart_s: int, status: int
) -> None:
    now = int(time.time()) + apart_s
    team.issuer.others = {"iat": now, "exp": now + 300}
    async with console.stranger() as client:
        assert (await client.get(await console.sent_back(client, "ann"))).status_code == status


async def test_an_answer_without_an_id_token_or_of_another_issuer_lets_nobody_in(
    console: TeamConsole, team: Team
) -> None:
    async with console.stranger() as client:
        back = await console.sent_back(client, "ann")
        elsewhere = back.replace("iss=", "iss=http%3A%2F%2Fevil.example%2F")
        assert "Another issuer" in (await client.get(elsewhere)).text
        team.issuer.sends_id_token = False
        refused = await client.get(await console.sent_back(client, "ann"))
        assert (refused.status_code, "no ID token" in refused.text) == (403, True)


async def test_an_issuer_that_says_no_is_quoted_as_text(console: TeamConsole) -> None:
    async with console.stranger() as client:
        state = parse_qs(urlsplit((await client.get("/login")).headers["location"]).query)["state"][0]
        said = {"state": state, "error": "access_denied", "error_description": "<script>no</script>"}
        refused = await client.get("/callback", params=said)
        assert (refused.status_code, "access_denied" in refused.text, "<script>" in refused.text) == (403, True, False)


async def test_keys_of_the_issuer_may_change(console: TeamConsole, team: Team) -> None:
    async with console.browser("ann"):
        team.issuer.rotate_keys()
    async with console.browser("ben") as client:
        assert (await client.get("/runs")).status_code == 200


async def test_forged_and_foreign_cookies_are_no_session(
    console: TeamConsole, team: Team, gateway: FakeGateway
) -> None:
    async with console.browser("ann") as client:
        cookies = dict(client.cookies)
    text = cookies[f"{SESSION}0"]
    async with console.stranger() as client:
        began = dict((await client.get("/login")).cookies)
    forged = [text[:-4] + "AAAA", text[::-1], "", "{}", next(iter(began.values()))]
    async with console.stranger() as client:
        for each in forged:
            asked = await client.get("/runs", headers={"cookie": f"{SESSION}0={each}"})
            assert asked.status_code == 303
    # Of another console, whose keys are others.
    other_keys = team.file("other", secrets.token_urlsafe(32))
    async with team.console(session_keys_file=other_keys) as other, other.stranger() as client:
        assert (await client.get("/runs", headers={"cookie": f"{SESSION}0={text}"})).status_code == 303
    assert gateway.calls == []


async def test_a_login_gives_a_new_session_and_takes_over_none(console: TeamConsole) -> None:
    async with console.browser("mallory") as client:
        planted = httpx.Cookies(client.cookies)
    async with console.stranger(planted) as client:
        assert "Mallory" in (await client.get("/runs")).text
        await client.get(await console.sent_back(client, "ann"))
        page = (await client.get("/runs")).text
        assert ("Ann" in page, "Mallory" in page) == (True, False)
    async with console.stranger(planted) as attacker:
        assert "Ann" not in (await attacker.get("/runs")).text


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://localhost"])
async def test_no_other_site_writes(console: TeamConsole, gateway: FakeGateway, origin: str | None) -> None:
    async with console.browser("ann") as client:
        del client.headers["origin"]
        headers = {} if origin is None else {"origin": origin}
        for path in (f"/questions/{RUN_ID}", "/new", f"/runs/{RUN_ID}/cancel", "/logout"):
            refused = await client.post(path, data=FORM, headers=headers)
            assert refused.status_code == 403
            check_headers(refused)
        embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        assert (await client.get("/runs", headers=embedded)).status_code == 403
        for host in ("evil.example", "127.0.0.1", "localhost"):
            assert (await client.get("/runs", headers={"host": host})).status_code == 403
        assert (await client.get("/logout")).status_code == 405
        assert gateway.calls == []
        assert (await client.get("/runs")).status_code == 200


async def test_a_token_that_ends_is_renewed_once_for_all_who_ask(team: Team, gateway: FakeGateway) -> None:
    team.issuer.expires_in = 20  # less than what is left when one is renewed
    async with team.console() as console, console.browser("ann") as client:
        before = dict(client.cookies)
        pages = await asyncio.gather(*(client.get("/runs") for _ in range(8)))
        assert {page.status_code for page in pages} == {200}
        assert team.issuer.renewals == 1
        assert dict(client.cookies) != before
        assert "Ann" in (await client.get("/runs")).text
    assert callers(gateway) == {"ann"}


async def test_who_may_not_renew_goes_on_with_a_good_token_and_then_logs_in_again(team: Team) -> None:
    team.issuer.expires_in = 20
    async with team.console() as console, console.browser("ann") as client:
        team.issuer.refresh_tokens.clear()
        assert (await client.get("/runs")).status_code == 200
        team.issuer.expires_in = 2
    async with team.console() as console, console.browser("ann") as client:
        team.issuer.refresh_tokens.clear()
        deadline = time.monotonic() + 30
        while (asked := await client.get("/runs")).status_code == 200:
            assert time.monotonic() < deadline
        assert asked.headers["location"].startswith(team.issuer.url)
        written = await client.post(f"/questions/{RUN_ID}", data=FORM)
        assert written.status_code == 401


async def test_a_renewal_for_somebody_else_is_none(team: Team, gateway: FakeGateway) -> None:
    team.issuer.expires_in = 20
    async with team.console() as console, console.browser("ann") as client:
        team.issuer.others = {"sub": "ben", "nonce": None}
        before = dict(client.cookies)
        assert "Ann" in (await client.get("/runs")).text
        assert (team.issuer.renewals, dict(client.cookies)) == (1, before)
    assert callers(gateway) == {"ann"}


@pytest.mark.parametrize(("age_s", "status"), [(50, 200), (61, 303)])
async def test_a_session_ends_in_the_end_however_often_it_was_renewed(team: Team, age_s: int, status: int) -> None:
    key, now = secrets.token_urlsafe(32), time.time()
    session = Session(team.issuer.access_token("ann"), "refresh", now + 300, now - age_s, "ann", "Ann")
    [kept] = SessionCookies(Seal([key], "session"), 3600).kept(session, ())
    async with team.console(session_keys_file=team.file("own", key), session_life_s=60) as console:
        async with console.stranger() as client:
            asked = await client.get("/runs", headers={"cookie": kept.partition(";")[0]})
        assert asked.status_code == status


async def test_replicas_know_one_anothers_sessions_and_logins(team: Team) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(team.console(base="https://console.example"))
        other = await stack.enter_async_context(team.console(base="https://console.example"))
        client = await stack.enter_async_context(one.stranger())
        client.headers["host"] = "console.example"
        back = await one.sent_back(client, "ann")
        assert back.startswith("https://console.example/callback?")
        through_other = back.replace("https://console.example", other.base)
        assert (await client.get(through_other)).status_code == 303
        for each in (one, other):
            assert "Ann" in (await client.get(f"{each.base}/runs")).text


async def test_keys_of_sessions_are_changed_without_a_new_login(team: Team) -> None:
    old, new = (secrets.token_urlsafe(32) for _ in range(2))
    files = [team.file(name, text) for name, text in (("old", old), ("both", f"{new}\n{old}\n"), ("new", new))]
    async with team.console(session_keys_file=files[0]) as console, console.browser("ann") as client:
        cookies = httpx.Cookies(client.cookies)
    for file, status in ((files[1], 200), (files[2], 303)):
        async with team.console(session_keys_file=file) as console, console.stranger(cookies) as client:
            assert (await client.get("/runs")).status_code == status


async def test_tokens_that_are_long_take_several_cookies_and_shrink_again(team: Team) -> None:
    async with team.console() as console:
        team.issuer.padding = secrets.token_urlsafe(4500)
        async with console.browser("ann") as client:
            assert len([name for name in client.cookies if name.startswith(SESSION)]) > 1
            assert "Ann" in (await client.get("/runs")).text
            team.issuer.padding = ""
            await client.get(await console.sent_back(client, "ann"))
            assert [name for name in client.cookies if name.startswith(SESSION)] == [f"{SESSION}0"]
            assert "Ann" in (await client.get("/runs")).text
        team.issuer.padding = secrets.token_urlsafe(20_000)
        async with console.stranger() as client:
            refused = await client.get(await console.sent_back(client, "ann"))
            assert (refused.status_code, "more than cookies hold" in refused.text) == (403, True)


async def test_logging_out_ends_it_here_and_there(console: TeamConsole, team: Team) -> None:
    async with console.browser("ann") as client:
        copied = httpx.Cookies(client.cookies)
        left = await client.post("/logout")
        assert (left.status_code, "You are logged out" in left.text) == (200, True)
        assert f'content="0; url={team.issuer.url}/logout?client_id=signalbox-console&amp;' in left.text
        assert [name for name in client.cookies if name.startswith(SESSION)] == []
        assert (await client.get("/logged-out")).status_code == 200
        assert (await client.get("/runs")).status_code == 303
    assert len(team.issuer.revoked) == 1
    # What was copied before is as good as the token in it, and is not renewed.
    async with console.stranger(copied) as client:
        assert (await client.get("/runs")).status_code == 200
    assert team.issuer.refresh_tokens == {}


async def test_an_issuer_that_is_away_is_said_and_ends_no_session(team: Team) -> None:
    team.issuer.expires_in = 20
    async with team.console() as console, console.browser("ann") as client:
        team.issuer.is_broken = True
        assert (await client.get("/runs")).status_code == 200  # the token is good for a while
        async with console.stranger() as other:
            failed = await other.get(await console.sent_back(other, "ben"))
            assert (failed.status_code, "does not answer" in failed.text) == (503, True)
            assert 'http-equiv="refresh"' in failed.text
        assert (await client.post("/logout")).status_code == 200


async def test_an_issuer_that_nobody_has_seen_yet_is_said(team: Team) -> None:
    async with (
        team.console(oidc_issuer="http://127.0.0.1:9") as console,
        console.stranger() as client,
    ):
        failed = await client.get("/runs")
        assert (failed.status_code, "does not answer" in failed.text) == (503, True)
        check_headers(failed)


async def test_an_issuer_of_another_name_is_not_believed(team: Team) -> None:
    async with team.console(oidc_issuer=f"{team.issuer.url}/") as console, console.stranger() as client:
        failed = await client.get("/runs")
        assert (failed.status_code, "calls itself" in failed.text) == (403, True)


async def test_a_token_that_the_gateway_refuses_is_no_loop(console: TeamConsole, gateway: FakeGateway) -> None:
    async with console.browser("ann") as client:
        gateway.failure = refusal(grpc.StatusCode.UNAUTHENTICATED, "the token is not valid here")
        refused = await client.get("/runs")
        assert (refused.status_code, "another audience" in refused.text, "Log out" in refused.text) == (401, True, True)


async def test_an_id_token_for_a_gateway_that_takes_those(team: Team, gateway: FakeGateway) -> None:
    team.issuer.expires_in = 20
    async with team.console(oidc_token="id_token") as console, console.browser("ann") as client:
        assert (await client.get("/runs")).status_code == 200
        assert (await client.get("/runs")).status_code == 200
    for token in gateway.tokens:
        claims = jwt.decode(token.removeprefix("Bearer "), options={"verify_signature": False})
        assert (claims["aud"], claims["sub"]) == ("signalbox-console", "ann")


async def test_many_tabs_log_in_and_leave_no_heap_of_cookies(console: TeamConsole) -> None:
    async with console.stranger() as client:
        backs = [await console.sent_back(client, "ann", f"/runs?agent=a{number}") for number in range(3)]
        for number, back in enumerate(backs):
            assert (await client.get(back)).headers["location"] == f"/runs?agent=a{number}"
        for _ in range(12):
            await client.get("/login")
        assert len([name for name in client.cookies if "login" in name]) <= 4


async def test_news_of_a_run_end_with_the_token_that_asked_for_them(team: Team, gateway: FakeGateway) -> None:
    team.issuer.expires_in = 2
    gateway.shown.run.state = runs_pb2.RUN_STATE_AWAITING_INPUT  # until then nothing is new
    async with team.console() as console, console.browser("ann") as client:
        team.issuer.refresh_tokens.clear()
        async with asyncio.timeout(30):
            told = await client.get(f"/runs/{RUN_ID}/events")
        assert (told.status_code, told.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


class TestBehindAProxy:
    @pytest.fixture
    async def console(self, team: Team) -> AsyncIterator[TeamConsole]:
        async with team.console(login="proxy") as served:
            yield served

    async def test_the_callers_token_is_handed_on(self, console: TeamConsole, team: Team, gateway: FakeGateway) -> None:
        for given in ("{}", "Bearer {}"):
            handed = {"x-forwarded-access-token": given.format(team.issuer.access_token("ann"))}
            async with console.stranger() as client:
                page = await client.get("/runs", headers=handed)
                assert (page.status_code, "ann" in page.text, "Log out" in page.text) == (200, True, False)
                check_headers(page)
        assert callers(gateway) == {"ann"}

    async def test_a_name_in_a_header_is_nobody(self, console: TeamConsole, gateway: FakeGateway) -> None:
        named = {
            "x-forwarded-user": "ann", "x-auth-request-user": "ann", "x-forwarded-email": "ann@example.com",
            "authorization": "Basic YW5uOmFubg==", "remote-user": "ann",
        }  # fmt: skip
        async with console.stranger() as client:
            refused = await client.get("/runs", headers=named)
            assert (refused.status_code, "hands on no token" in refused.text) == (401, True)
            for odd in ("", "two words", "tök", "x" * 9000):
                handed = [(b"x-forwarded-access-token", odd.encode("latin-1"))]
                assert (await client.get("/runs", headers=handed)).status_code == 401
            twice = [("x-forwarded-access-token", "a"), ("x-forwarded-access-token", "b")]
            assert (await client.get("/runs", headers=twice)).status_code == 401
            assert (await client.get("/callback", headers=named)).status_code == 401
        assert gateway.calls == []

    async def test_no_other_site_writes(self, console: TeamConsole, team: Team, gateway: FakeGateway) -> None:
        async with console.stranger() as client:
            handed = {"x-forwarded-access-token": team.issuer.access_token("ann")}
            for origin in ({}, {"origin": "https://evil.example"}):
                refused = await client.post(f"/questions/{RUN_ID}", data=FORM, headers={**handed, **origin})
                assert refused.status_code == 403
            assert (await client.get("/runs", headers={**handed, "host": "evil.example"})).status_code == 403
        assert gateway.calls == []
