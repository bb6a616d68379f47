"""A team's console in a real browser: what a page that goes along says when its reader's session has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect
from signalbox.v1 import runs_pb2

from tests.fixtures.browser import async_browser
from tests.fixtures.certificates import Authority
from tests.fixtures.oidc_issuer import OidcIssuer
from tests.fixtures.page_checks import UNSTYLED, found_by_axe
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.console.fake_gateway import fake_gateway, serving
from tests.integration.console.team import Team, credentials_of

pytestmark = pytest.mark.browser
TIMEOUT_MS = 60_000


async def test_the_pages_of_login_and_logout(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("console")
    async with (
        OidcIssuer().serving() as issuer,
        serving(fake_gateway(explained()), credentials=credentials_of(certificate)) as port,
        Team(tmp_path, certificate, port, issuer).console() as console,
        async_browser() as browser,
        await browser.new_context(ignore_https_errors=True) as context,
    ):
        context.set_default_timeout(TIMEOUT_MS)
        page = await context.new_page()
        await page.goto(f"{console.base}/callback?state=none")
        await expect(page.get_by_role("heading")).to_have_text("You could not be logged in")
        assert await found_by_axe(page, **UNSTYLED) == []
        await page.goto(f"{console.base}/logged-out")
        await expect(page.get_by_role("heading")).to_have_text("You are logged out")
        assert await found_by_axe(page, **UNSTYLED) == []
        await page.goto(f"{console.base}/new")
        await page.get_by_label("Name").fill("ann")
        await page.get_by_label("Name").press("Enter")
        await expect(page.get_by_role("heading", name="New run")).to_be_visible()
        await context.clear_cookies()
        await page.locator("form.new").evaluate("form => form.submit()")
        await expect(page.get_by_role("heading")).to_have_text("You are not logged in")
        await expect(page.get_by_role("link", name="Log in")).to_have_attribute("href", "/login?from=%2Fnew")
        assert await found_by_axe(page, **UNSTYLED) == []


async def test_a_page_whose_session_has_ended_says_so_and_asks_no_more(tmp_path: Path) -> None:
    gateway = fake_gateway(explained())
    gateway.shown.run.state = runs_pb2.RUN_STATE_RUNNING
    gateway.shown.run.ClearField("end_time")
    certificate = Authority(tmp_path).issue("console")
    async with (
        OidcIssuer(expires_in=3).serving() as issuer,
        serving(gateway, credentials=credentials_of(certificate)) as port,
        Team(tmp_path, certificate, port, issuer).console() as console,
        async_browser() as browser,
        await browser.new_context(ignore_https_errors=True) as context,
    ):
        context.set_default_timeout(TIMEOUT_MS)
        page = await context.new_page()
        await page.goto(f"{console.base}/runs/{RUN_ID}")
        await page.get_by_label("Name").fill("ann")
        await page.get_by_label("Name").press("Enter")
        await expect(page.locator("#live")).to_contain_text("follows the run", timeout=TIMEOUT_MS)
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            while "You are not logged in" not in await page.locator("#live").inner_text():
                await context.clear_cookies()  # again: an answer that was under way may have renewed the session
                await page.wait_for_timeout(100)
        await expect(page.locator("#live a")).to_have_attribute("href", f"/login?from=%2Fruns%2F{RUN_ID}")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.wait_for_timeout(5000)  # longer than between two tries
        assert asked == []
