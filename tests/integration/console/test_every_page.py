"""Every page in a browser, narrow and wide, light and dark: what axe checks, and that it fits and asks nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page

from services.console.explanation_page.page import render_page
from tests.fixtures.browser import async_browser
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.console.conftest import Console
from tests.integration.console.every_page import addresses, fill
from tests.integration.console.fake_gateway import FakeGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
TIMEOUT_MS = 120_000
NARROW, WIDE = 400, 1280
LOOKS = tuple(product((NARROW, WIDE), ("light", "dark")))
# What a browser says of an answer that is an error, which the page says as well.
EXPECTED = "Failed to load resource"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"
UNHEADED = (
    "all => all.filter(each => getComputedStyle(each, '::before').content === 'none').map(each => each.outerHTML)"
)
# Words that a person reads as one, and that stand on two lines.
BROKEN_WORDS = r"""() => {
  const broken = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, range = document.createRange();
    if (!text.parentElement.checkVisibility() || text.parentElement.closest("pre")) continue;
    for (const word of text.data.matchAll(/(?<!\S)\w{2,40}(?!\S)/g)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_browser() as started:
        yield started


async def opened(browser: Browser, width: int, scheme: Any) -> Page:
    """Opens an empty page."""
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(TIMEOUT_MS)
    return page


async def found_by_axe(page: Page, **options: Any) -> list[str]:
    """Returns what is wrong with a page as it stands: the rule, where, and what was seen there."""
    found = (await Axe().run(page, options={"resultTypes": ["violations"], **options})).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['html'][:120]} {node['failureSummary'].splitlines()[1:2]}"
        for each in found
        for node in each["nodes"]
    ]


async def problems(page: Page, width: int) -> list[str]:
    """Returns what is wrong with a page, each in words."""
    await page.evaluate(OPEN_ALL)
    found = await found_by_axe(page)
    if await page.locator("main h1").count() != 1:
        found.append("it has no heading of its own")
    if await page.evaluate(TOO_WIDE):
        found.append("it is wider than the window")
    if width == WIDE:
        found += [f"a word is broken: {word}" for word in await page.evaluate(BROKEN_WORDS)]
    else:  # no column has a heading there, so each value says what it is
        values = page.locator(".stack td:not(:empty):not([colspan])")
        found += [f"a value without its heading: {each}" for each in await values.evaluate_all(UNHEADED)]
    return found


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_every_page_of_the_console(
    browser: Browser, console: Console, gateway: FakeGateway, width: int, scheme: Any
) -> None:
    fill(gateway)
    page, requests, complaints = await opened(browser, width, scheme), set[str](), list[str]()
    page.on("request", lambda request: requests.add(request.url))
    page.on("console", lambda said: complaints.append(said.text) if EXPECTED not in said.text else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{console.base}/runs")
    # It has no style, and of the browser's own colours axe takes the ground to be white.
    wrong = [
        f"before it is opened: {each}"
        for each in await found_by_axe(page, rules={"color-contrast": {"enabled": False}})
    ]
    await page.goto(console.address)
    for address in addresses():
        await page.goto(f"{console.base}{address}")
        wrong += [f"{address}: {each}" for each in await problems(page, width)]
    assert wrong == []
    assert complaints == []
    assert {url.startswith((console.base, "data:")) for url in requests} == {True}


async def test_words_without_an_end_fit(browser: Browser, console: Console, gateway: FakeGateway) -> None:
    fill(gateway)
    gateway.question.input_request.question = "word" * 200
    gateway.question.subject = gateway.question.assignee = "s" * 128
    run = gateway.runs[RUN_ID]
    run.correlation_id, run.title, run.labels["team"] = "c" * 128, "t" * 200, "l" * 60
    page = await opened(browser, NARROW, "light")
    await page.goto(console.address)
    for address in addresses():
        await page.goto(f"{console.base}{address}")
        assert not await page.evaluate(TOO_WIDE), address


async def test_light_dark_and_printed(browser: Browser, console: Console) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page = await opened(browser, WIDE, scheme)
        await page.goto(console.address)
        grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
    await page.emulate_media(media="print")
    assert not await page.locator("nav").is_visible()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_the_page_that_explains_a_run(browser: Browser, tmp_path: Path, width: int, scheme: Any) -> None:
    file = tmp_path / f"{RUN_ID}.html"
    file.write_text(render_page(explained(asks="Go on?")), "utf-8")
    page = await opened(browser, width, scheme)
    await page.goto(file.as_uri())
    assert await problems(page, width) == []
