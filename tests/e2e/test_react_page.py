"""A page built with LangGraph's newest client for React, in Chromium, before two replicas of the HTTP API.

It knows streams of threads alone. Its packages are installed and bundled for the test.
"""

from __future__ import annotations

import asyncio
import functools
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, expect

from tests.e2e.test_client_programs import needs_index
from tests.fixtures.browser import async_browser
from tests.fixtures.silent_proxy import SilentProxy
from tests.fixtures.stack import Platform, World, platform

FIXTURES = Path(__file__).parents[1] / "fixtures"
PACKAGES = ("@langchain/react@1.1.0", "@langchain/core@1", "react@19", "react-dom@19", "esbuild@0.25")
BUILD_TIMEOUT_S = 600
PATIENCE_MS = 120_000
HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script src="bundle.js"></script>'
pytestmark = [
    pytest.mark.browser,
    pytest.mark.client_programs,
    pytest.mark.timeout(BUILD_TIMEOUT_S + 600),
]


def built(folder: Path) -> Path:
    """Bundles the page, with its packages."""
    shutil.copy(FIXTURES / "pages" / "react_chat.jsx", folder)
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    subprocess.run(install, check=True, timeout=BUILD_TIMEOUT_S)
    bundle = ["npx", "esbuild", "react_chat.jsx", "--bundle", "--jsx=automatic", "--outfile=site/bundle.js"]
    subprocess.run([*bundle, "--log-level=warning"], cwd=folder, check=True, timeout=BUILD_TIMEOUT_S)
    (folder / "site" / "index.html").write_text(HTML)
    return folder / "site"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served_files(folder: Path) -> Iterator[str]:
    """Where a folder is served, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Chat:
    """A browser with the page, before replicas of which one is behind the address that it knows."""

    running: Platform
    context: BrowserContext
    balancer: SilentProxy
    url: str

    async def open(self, url: str = "") -> Page:
        """A tab at the beginning, or at a conversation."""
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(url or self.url)
        return page

    def lead_to(self, replica: int) -> None:
        """New connections go to a replica."""
        self.balancer.upstream = str(self.running.stack.http_apis[replica].ready.listen)

    @asynccontextmanager
    async def dying(self, replica: int) -> AsyncIterator[None]:
        """A replica is dead meanwhile, and the other one stands for it."""
        process = self.running.stack.http_apis[replica]
        self.lead_to(1 - replica)
        await process.kill()
        try:
            yield
        finally:
            await process.start()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chat(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chat]:
    """The page, and a platform that allows it."""
    folder = tmp_path_factory.mktemp("page")
    needs_index("npm", folder)
    site = await asyncio.to_thread(built, folder)
    with served_files(site) as origin:
        env = {
            "runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FIXTURES / "hosted_chat")},
            "http_api": {"SIGNALBOX_ALLOWED_ORIGINS": origin},
        }
        async with (
            async_browser() as browser,
            platform(harbour, service_env=env, http_replicas=2) as running,
            SilentProxy() as balancer,
        ):
            query = urlencode({"api": f"http://{balancer.address}", "key": running.token("27")})
            made = Chat(running, await browser.new_context(), balancer, f"{origin}/?{query}")
            made.lead_to(0)
            yield made


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def closing(chat: Chat) -> AsyncIterator[None]:
    """Tabs that are left open would take the six connections that a browser has for an address, two each."""
    yield
    for page in chat.context.pages:
        await page.close()


async def say(page: Page, text: str) -> None:
    await page.locator("input").fill(text)
    await page.locator("input").press("Enter")


async def is_idle(page: Page) -> None:
    await expect(page.locator("#state")).to_have_text("idle", timeout=PATIENCE_MS)


async def said(page: Page, kind: str) -> list[str]:
    return [text.strip() for text in await page.locator(f"li.{kind}").all_inner_texts()]


async def words_come(page: Page, last: str = "word29") -> None:
    """Words of an answer are seen while they are said."""
    seen = "() => { const said = [...document.querySelectorAll('li.ai')].at(-1)?.innerText ?? '';"
    condition = f"{seen} return /word\\d/.test(said) && !said.includes('{last}'); }}"
    await page.wait_for_function(condition, polling=20)


def answer_to(text: str, count: int = 30) -> str:
    return f"You said: {text} " + " ".join(f"word{number}" for number in range(count))


async def test_a_conversation_with_words_a_tool_and_a_question(chat: Chat) -> None:
    page = await chat.open()
    await say(page, "Hello")
    await words_come(page)
    await is_idle(page)
    assert await said(page, "ai") == [answer_to("Hello")]
    await say(page, "What is the weather?")
    await expect(page.locator("ul")).to_contain_text("look_up_weather finished: rain in Kiel", timeout=PATIENCE_MS)
    await is_idle(page)
    await say(page, "Send a mail")
    approve = page.get_by_role("button", name="Approve")
    await expect(approve).to_contain_text("ana@example.com", timeout=PATIENCE_MS)
    await page.reload()
    await approve.click()
    await expect(page.locator("ol")).to_contain_text("The tool says: sent to ana@example.com", timeout=PATIENCE_MS)
    await is_idle(page)
    await expect(approve).to_have_count(0)
    assert await said(page, "human") == ["Hello", "What is the weather?", "Send a mail"]
    assert await page.locator("#error").inner_text() == ""


async def test_two_tabs_hear_an_answer_through_a_reload_and_the_death_of_a_replica(chat: Chat) -> None:
    page = await chat.open()
    await say(page, "What is the weather?")
    await expect(page.locator("ul")).to_contain_text("look_up_weather finished", timeout=PATIENCE_MS)
    await is_idle(page)
    await say(page, "Slowly")
    await words_come(page, "word99")
    other = await chat.open(page.url)
    await words_come(other, "word99")
    await page.reload()
    await words_come(page, "word99")
    async with chat.dying(0):
        for each in (page, other):
            await expect(each.locator("li.ai").last).to_contain_text("word99", timeout=PATIENCE_MS)
            await is_idle(each)
            assert (await said(each, "ai"))[-1] == answer_to("Slowly", 100)
            assert await said(each, "human") == ["What is the weather?", "Slowly"]
        await say(other, "Hello")
        await is_idle(other)
        assert (await said(other, "ai"))[-1] == answer_to("Hello")
        await expect(page.locator("li.ai").last).to_contain_text("You said: Hello", timeout=PATIENCE_MS)
    chat.lead_to(0)


async def test_an_answer_is_stopped_and_the_conversation_goes_on(chat: Chat) -> None:
    page = await chat.open()
    await say(page, "Slowly")
    await words_come(page, "word99")
    await page.get_by_role("button", name="Stop").click()
    await is_idle(page)
    await say(page, "Hello")
    # What was said of the answer that was stopped is in no state; the client shows it until the page is loaded anew.
    await expect(page.locator("li.ai", has_text=answer_to("Hello"))).to_have_count(1, timeout=PATIENCE_MS)
    await is_idle(page)
    assert await said(page, "human") == ["Slowly", "Hello"]
    await page.reload()
    await expect(page.locator("li.ai")).to_have_count(1, timeout=PATIENCE_MS)
    await expect(page.locator("li.ai")).to_contain_text(answer_to("Hello"))
    await is_idle(page)
