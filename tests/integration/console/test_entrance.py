"""Who is let into the console: the browser of who started it, and no site that this browser visits."""

from __future__ import annotations

import asyncio
import html

import httpx
import pytest
from starlette.responses import PlainTextResponse

from services.console.app import STATIC
from services.console.entrance import Entrance
from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.conftest import CALLERS_TOKEN, Console
from tests.integration.console.fake_gateway import FakeGateway

PAGES = (
    "/", "/runs", f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/events", "/questions", f"/questions/{RUN_ID}", "/routes",
    "/rules", "/decisions", "/policies", *(f"/static/{name}" for name in STATIC), "/nowhere",
)  # fmt: skip
FORM = {"input_request_id": "q", "option": "approve"}


def check_headers(response: httpx.Response) -> None:
    """Checks what every answer tells the browser, whatever it is."""
    policy = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
    assert (policy["form-action"], policy["frame-ancestors"], policy["base-uri"]) == ("'self'", "'none'", "'none'")
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_the_address_lets_a_browser_in_and_leaves_its_bar(console: Console, gateway: FakeGateway) -> None:
    async with console.stranger() as client:
        entered = await client.get("/", params={"token": console.token})
        assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert console.token not in cookie
        page = await client.get("/runs")
        assert page.status_code == 200
        check_headers(entered)
        check_headers(page)
        assert RUN_ID in page.text
        for secret in (console.token, CALLERS_TOKEN, *client.cookies.values()):
            assert secret not in page.text
    assert gateway.tokens == {f"Bearer {CALLERS_TOKEN}"}


async def test_nothing_is_there_for_who_has_not_shown_it(console: Console, gateway: FakeGateway) -> None:
    async with console.stranger() as client:
        for path in PAGES:
            refused = await client.get(path)
            assert (refused.status_code, RUN_ID in refused.text.replace(path, "")) == (403, False), path
            assert "Open the address" in refused.text
            check_headers(refused)
        refused = await client.post(f"/questions/{RUN_ID}", data=FORM, headers={"origin": console.base})
        assert refused.status_code == 403
    assert gateway.calls == []


@pytest.mark.parametrize("token", ["", "x", "tôken", "%FF%FE", "\x00"])
async def test_another_token_is_refused(console: Console, token: str) -> None:
    async with console.stranger() as client:
        refused = await client.get("/", params={"token": token})
        assert (refused.status_code, client.cookies) == (403, httpx.Cookies())
        almost = await client.get("/", params={"token": console.token[:-1]})
        assert (almost.status_code, almost.headers.get("set-cookie")) == (403, None)


async def test_one_consoles_cookie_opens_no_other(console: Console, gateway: FakeGateway) -> None:
    async with console.browser() as client:
        [(name, value)] = client.cookies.items()
    port = console.base.rpartition(":")[2]
    assert port in name
    async with console.stranger() as client:
        for forged in (f"{name}={value[:-1]}", f"{name}=", f"signalbox_console_1={value}", f"{name}={console.token}"):
            assert (await client.get("/runs", headers={"cookie": forged})).status_code == 403
        assert (await client.get("/runs", headers={"cookie": f"{name}={value}"})).status_code == 200
    assert gateway.calls


async def test_it_answers_to_its_own_name_only(console: Console, inside: httpx.AsyncClient) -> None:
    port = console.base.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1", "localhost:1",
                 f"LOCALHOST.:{port}", f"[::1]:{port}", "", f"user@127.0.0.1:{port}"):  # fmt: skip
        refused = await inside.get("/runs", headers={"host": host})
        assert refused.status_code in (400, 403), host
        assert RUN_ID not in refused.text
    assert (await inside.get("/runs", headers={"host": f"localhost:{port}"})).status_code == 200


async def test_a_link_from_elsewhere_is_gone_on_with_by_one_click(console: Console) -> None:
    def offered(page: httpx.Response) -> str:
        return html.unescape(page.text.partition('<a href="')[2].partition('"')[0])

    async with console.stranger() as client:
        assert offered(await client.get("/rules?agent=data_chat&period=day")) == "/rules?agent=data_chat&period=day"
        for path in ("//evil.example/", "/%5Cevil.example/", "///evil.example", "/%2F/evil.example"):
            link = offered(await client.get(httpx.URL(f"{console.base}{path}")))
            assert httpx.URL(console.base).join(link).host == "127.0.0.1"
            assert link[1:2] not in ("/", "\\")
        assert offered(await client.post("/questions/x", headers={"origin": console.base})) == ""


async def test_of_the_port_that_browsers_take_by_themselves_they_say_nothing() -> None:
    entrance = Entrance(PlainTextResponse("inside"), "secret", 80)
    transport = httpx.ASGITransport(entrance)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/", params={"token": "secret"})).status_code == 303
        assert (await client.get("/runs")).text == "inside"
        for origin, status in (("http://127.0.0.1", 200), ("http://evil.example", 403)):
            assert (await client.post("/runs", headers={"origin": origin})).status_code == status
        for host in ("evil.example", "127.0.0.1:8080"):
            assert (await client.get("/runs", headers={"host": host})).status_code == 403


async def test_two_hosts_are_none(console: Console) -> None:
    port = console.base.rpartition(":")[2]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    host = f"127.0.0.1:{port}"
    writer.write(f"GET /runs HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(30):
        answered = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answered.split(b" ", 2)[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1"]
)
async def test_no_other_site_writes(
    console: Console, inside: httpx.AsyncClient, gateway: FakeGateway, origin: str | None
) -> None:
    del inside.headers["origin"]
    port = console.base.rpartition(":")[2]
    headers = {} if origin is None else {"origin": origin.format(port=port)}
    for path in (f"/questions/{RUN_ID}", f"/questions/{RUN_ID}/assignee"):
        refused = await inside.post(path, data=FORM, headers=headers)
        assert refused.status_code == 403
        check_headers(refused)
    if origin:
        assert (await inside.get("/runs", headers=headers)).status_code == 403
    assert gateway.calls == []


async def test_what_browsers_say_of_other_sites_is_heeded(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert (await inside.get("/runs", headers=embedded)).status_code == 403
    written = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}
    assert (await inside.post(f"/questions/{RUN_ID}", data=FORM, headers=written)).status_code == 403
    assert gateway.calls == []
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await inside.get("/runs", headers=followed)).status_code == 200


async def test_errors_tell_the_browser_the_same(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    for path in ("/nowhere", "/static/..%2Fapp.py", "/static/none.js", "/runs?state=no"):
        response = await inside.get(path)
        assert response.status_code == (400 if path.startswith("/runs") else 404)
        check_headers(response)
        assert "retention" not in response.text
    gateway.shown.story.agent.nodes[0].rules[0].ClearField("when")  # a condition of no kind that is known
    failed = await inside.get(f"/runs/{RUN_ID}")
    assert (failed.status_code, "ValueError" in failed.text) == (500, False)
    check_headers(failed)
    wrong = await inside.put("/runs")
    assert wrong.status_code == 405
