"""Agent Chat UI in Chromium, against the HTTP API and an agent that says words, calls tools and asks before one.

Its package is installed and built the first time; AGENT_CHAT_UI names a folder of its repository instead, where its
packages are installed and `next build` was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, expect

from tests.chaos.deployment import until
from tests.e2e.test_client_programs import needs_index
from tests.fixtures.browser import async_browser
from tests.fixtures.chat_ui import asks_as_middleware_does, chat_ui, serving
from tests.fixtures.ports import reserved_port
from tests.fixtures.stack import World, platform

AGENTS = Path(__file__).parents[1] / "fixtures" / "hosted_chat"
BUILD_TIMEOUT_S = 1200
START_TIMEOUT_S = 300
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.client_programs,
    pytest.mark.timeout(BUILD_TIMEOUT_S + START_TIMEOUT_S + 600),
]


@asynccontextmanager
async def served_at(folder: Path, port: int) -> AsyncIterator[str]:
    """The chat interface, served."""
    process = await asyncio.create_subprocess_exec(
        *serving(folder, port), cwd=folder, start_new_session=True, stdout=asyncio.subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as http:
            await until(lambda: answers(http, url), "the chat interface is served", timeout_s=START_TIMEOUT_S)
        yield url
    finally:
        os.killpg(process.pid, 15)
        await process.wait()


async def answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).status_code == 200
    except httpx.HTTPError:
        return False


@dataclass(frozen=True)
class Chat:
    """A browser in which somebody has given the chat interface their token."""

    context: BrowserContext
    url: str
    # What to say so that the agent asks for something in the form that the interface knows.
    asking: str

    async def open(self, url: str = "") -> Page:
        """A tab at the beginning, or at a conversation."""
        page = await self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(url or self.url)
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chat(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chat]:
    """The chat interface and a platform that allows it."""
    if "AGENT_CHAT_UI" not in os.environ:
        needs_index("npm", tmp_path_factory.mktemp("npm"))
    folder = await asyncio.to_thread(chat_ui)
    with reserved_port() as port:
        pass  # a server of node's would not share it
    env = {
        "runtime": {"SIGNALBOX_AGENT_FOLDERS": str(AGENTS)},
        "http_api": {"SIGNALBOX_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}"},
    }
    async with (
        async_browser() as browser,
        served_at(folder, port) as url,
        platform(harbour, service_env=env, http_replicas=1) as running,
    ):
        context = await browser.new_context(viewport={"width": 1400, "height": 1000})
        await context.add_init_script(f"localStorage.setItem('lg:chat:apiKey', {running.token('27')!r})")
        api = f"http://{running.stack.http_apis[0].ready.listen}"
        asking = "Send a mail" if asks_as_middleware_does(folder) else "Send a letter"
        yield Chat(context, f"{url}/?apiUrl={api}&assistantId=agent&chatHistoryOpen=true", asking)


async def say(page: Page, text: str) -> None:
    await page.get_by_placeholder("Type your message...").fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


async def at_message(page: Page, text: str) -> None:
    await page.locator("p.bg-muted", has_text=text).hover()


async def words_come(page: Page, after: str, last: str = "word29") -> None:
    """Words of an answer are seen while they are said."""
    seen = f"() => {{ const said = document.body.innerText.split('You said: {after}').at(-1);"
    await page.wait_for_function(f"{seen} return /word\\d/.test(said) && !said.includes('{last}'); }}", polling=20)


async def test_a_conversation_with_an_edit_a_branch_and_a_tool(chat: Chat) -> None:
    page = await chat.open()
    heard = page.locator("body")
    await say(page, "Hello there")
    await words_come(page, "Hello there")
    await expect(heard).to_contain_text("word29")
    await at_message(page, "Hello there")
    await page.get_by_role("button", name="Edit").first.click()
    await page.locator("div.group textarea").fill("Edited words")
    await page.locator("div.group textarea").press("Control+Enter")
    await expect(heard).to_contain_text("You said: Edited words")
    await expect(heard).to_contain_text("2 / 2")
    await at_message(page, "Edited words")
    await page.locator("svg.lucide-chevron-left").first.click()
    await expect(heard).to_contain_text("You said: Hello there")
    await say(page, "What is the weather?")
    await expect(heard).to_contain_text("The tool says: rain in Kiel")
    await expect(heard).to_contain_text("look_up_weather")


async def test_a_question_outlasts_a_reload_and_its_form_is_answered(chat: Chat) -> None:
    page = await chat.open()
    heard = page.locator("body")
    field = page.locator("div:has(> p:text-is('To')) > textarea")
    await say(page, chat.asking)
    await expect(field).to_have_value("ana@example.com")
    await page.reload()
    await expect(field).to_have_value("ana@example.com")
    await field.fill("ben@example.com")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(heard).to_contain_text("sent to ben@example.com")
    await page.reload()
    await expect(heard).to_contain_text("sent to ben@example.com")
    await say(page, f"{chat.asking} again")
    await page.get_by_role("button", name="Mark as Resolved").click()
    await expect(page.get_by_role("button", name="Mark as Resolved")).to_have_count(0)


async def test_who_reloads_in_the_middle_of_an_answer_goes_on_there_and_in_another_tab(chat: Chat) -> None:
    page = await chat.open()
    await say(page, "Before the reload")
    await words_come(page, "Before the reload")
    await page.reload()
    # Whether the answer goes on is for the page to say: that of the package has the run cancelled when it goes.
    await expect(page.locator("p.bg-muted", has_text="Before the reload")).to_have_count(1)
    await say(page, "After the reload")
    await expect(page.locator("body")).to_contain_text("You said: After the reload")
    await expect(page.locator("body")).to_contain_text("word29")
    other = await chat.open(page.url)
    await expect(other.locator("body")).to_contain_text("You said: After the reload")
    await say(other, "From the other tab")
    await expect(other.locator("body")).to_contain_text("You said: From the other tab")
    await expect(other.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await page.reload()
    await expect(page.locator("body")).to_contain_text("You said: From the other tab")
    # Conversations are listed by what was said first, in each tab.
    for tab in (page, other):
        await expect(tab.get_by_role("button", name="Before the reload")).to_have_count(1)


async def test_an_answer_is_stopped_and_the_conversation_goes_on(chat: Chat) -> None:
    page = await chat.open()
    await say(page, "Slowly, and then stop")
    await words_come(page, "Slowly", last="word99")
    await page.get_by_role("button", name="Cancel").click(force=True)  # it moves while words come
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await say(page, "And now")
    await expect(page.locator("body")).to_contain_text("You said: And now")
    await expect(page.get_by_text("An error occurred")).to_have_count(0)
