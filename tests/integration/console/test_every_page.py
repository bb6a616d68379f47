"""Every page in a browser, narrow and wide, light and dark: what axe checks, and that it fits and asks nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser
from signalbox.v1 import threads_pb2

from services.console.explanation_page.page import render_page
from tests.fixtures.browser import async_browser
from tests.fixtures.page_checks import LOOKS, NARROW, TOO_WIDE, UNSTYLED, WIDE, found_by_axe, opened, problems
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.console.conftest import Console
from tests.integration.console.every_page import RESULTS, addresses, fill, result_of
from tests.integration.console.fake_gateway import FakeGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
# What a browser says of an answer that is an error, which the page says as well.
EXPECTED = "Failed to load resource"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_browser() as started:
        yield started


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
    wrong = [f"before it is opened: {each}" for each in await found_by_axe(page, **UNSTYLED)]
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
    page = await opened(browser, width, scheme)
    for agent in ("", *RESULTS):
        told = explained(asks="Go on?")
        if agent:
            told.run.output.CopyFrom(result_of(agent))
        state = threads_pb2.ThreadState()
        state.values.update({"messages": [{"role": "human", "content": "How many?"}], "count": 2})
        file.write_text(render_page(replace(told, states={told.decisions[0].checkpoint_id: state})), "utf-8")
        await page.goto(file.as_uri())
        assert await problems(page, width) == [], agent
