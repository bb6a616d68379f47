"""A team's console over a whole platform that trusts the team's issuer, in a real browser."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from services.console.server import NAME, build
from services.console.settings import TeamConsoleSettings
from services.kit.wire.web_service import running
from tests.fixtures.browser import async_browser
from tests.fixtures.client import RunClient
from tests.fixtures.oidc_issuer import AUDIENCE, CLIENT_ID, CLIENT_SECRET, OidcIssuer
from tests.fixtures.ports import reserved_port
from tests.fixtures.stack import World, platform

pytestmark = pytest.mark.browser
TIMEOUT_MS = 60_000
# What browsers ask an issuer for beside its form, and it has not.
ISSUERS = "/favicon.ico"
# Callers of the world; operators see what is everybody's.
ANN, BEN, OPERATOR = "27", "31", "ops"


@asynccontextmanager
async def console(gateway: str, issuer: OidcIssuer, folder: Path) -> AsyncIterator[str]:
    """Serves it without TLS, as what a proxy of this machine leads to; yields the address that browsers know."""
    for name, text in (("client", CLIENT_SECRET), ("keys", secrets.token_urlsafe(32))):
        (folder / name).write_text(text)
    with reserved_port() as port:
        base = f"http://localhost:{port}"
        settings = TeamConsoleSettings(
            listen=f"127.0.0.1:{port}",
            gateway_target=f"ipv4:{gateway}",
            public_url=base,
            oidc_issuer=issuer.url,
            oidc_client_id=CLIENT_ID,
            oidc_client_secret_file=folder / "client",
            session_keys_file=folder / "keys",
            shutdown_grace_s=1,
        )
        async with running(NAME, settings, build):
            yield base


async def logged_in(page: Page, address: str, person: str) -> None:
    """Opens a page as somebody who has to log in first."""
    await page.goto(address)
    await page.get_by_label("Name").fill(person)
    await page.get_by_label("Name").press("Enter")
    await page.wait_for_url(address)


@asynccontextmanager
async def opened(browser: Browser) -> AsyncIterator[tuple[Page, list[str]]]:
    """Yields a page of a browser that knows nobody, and what it complains of."""
    complaints: list[str] = []
    async with await browser.new_context() as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = await context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if ISSUERS not in said.location["url"] else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page, complaints


async def test_people_log_in_and_see_their_own_runs(harbour: World, tmp_path: Path) -> None:
    async with OidcIssuer(roles={OPERATOR: ["operator"]}).serving() as issuer:
        trusting = {
            "SIGNALBOX_JWKS_FILE": "",
            "SIGNALBOX_JWKS_URL": f"{issuer.url}/keys",
            "SIGNALBOX_JWT_ISSUER": issuer.url,
            "SIGNALBOX_JWT_AUDIENCE": AUDIENCE,
        }
        async with (
            platform(harbour, service_env={"gateway": trusting}) as signalbox,
            console(signalbox.address, issuer, tmp_path) as base,
            async_browser() as browser,
        ):
            runs = {}
            for person in (ANN, BEN):
                client = RunClient(signalbox.channel, issuer.access_token(person))
                runs[person] = (await client.ask("How many devices do I have?")).run.run_id
            async with opened(browser) as (page, complaints):
                await logged_in(page, f"{base}/runs", ANN)
                await expect(page.locator(f'a[href="/runs/{runs[ANN]}"]').first).to_be_visible()
                await expect(page.locator(f'a[href="/runs/{runs[BEN]}"]')).to_have_count(0)
                await expect(page.locator("nav")).to_contain_text(ANN)
                assert [await page.evaluate("document.cookie"), await page.evaluate("localStorage.length")] == ["", 0]
                await page.goto(f"{base}/runs/{runs[ANN]}")
                await expect(page.locator(".pill").first).to_have_text("answered")
                await page.goto(f"{base}/metrics")
                await expect(page.locator("main")).to_contain_text("1 run that you may see")
                await page.get_by_role("link", name="answered").click()
                await expect(page.locator(f'a[href="/runs/{runs[ANN]}"]').first).to_be_visible()
                assert complaints == []
                await page.goto(f"{base}/runs/{runs[BEN]}")
                await expect(page.get_by_role("heading", name="Not found")).to_be_visible()

                await page.get_by_role("button", name="Log out").click()
                await page.wait_for_url(f"{base}/logged-out")
                await expect(page.get_by_role("heading", name="You are logged out")).to_be_visible()
                await page.get_by_role("link", name="Log in again").click()
                await page.get_by_label("Name").fill(BEN)
                await page.get_by_label("Name").press("Enter")
                await page.wait_for_url(f"{base}/runs")
                await expect(page.locator(f'a[href="/runs/{runs[BEN]}"]').first).to_be_visible()
                await expect(page.locator(f'a[href="/runs/{runs[ANN]}"]')).to_have_count(0)
            async with opened(browser) as (page, complaints):
                await logged_in(page, f"{base}/metrics", OPERATOR)
                await expect(page.locator("main")).to_contain_text("2 runs that you may see")
                assert complaints == []
