"""Agent Chat UI in Chromium, against the HTTP API and an agent that says words, calls tools and asks before one.

AGENT_CHAT_UI names the folder of its repository, where its packages are installed and `next build` was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.chaos.deployment import until
from tests.fixtures.browser import async_browser
from tests.fixtures.ports import reserved_port
from tests.fixtures.stack import World, platform

AGENTS = Path(__file__).parents[1] / "fixtures" / "hosted_chat"
START_TIMEOUT_S = 300
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)
pytestmark = [pytest.mark.client_programs, pytest.mark.timeout(START_TIMEOUT_S + 600)]


@asynccontextmanager
async def served_at(port: int) -> AsyncIterator[str]:
    """The chat interface, served."""
    folder = os.environ.get("AGENT_CHAT_UI") or pytest.skip("AGENT_CHAT_UI names no folder of a chat interface")
    command = ["npx", "next", "start", "-H", "127.0.0.1", "-p", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, start_new_session=True, stdout=asyncio.subprocess.DEVNULL
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


async def say(page: Page, text: str) -> None:
    await page.get_by_placeholder("Type your message...").fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


async def at_message(page: Page, text: str) -> None:
    await page.locator("p.bg-muted", has_text=text).hover()


async def test_a_conversation_with_a_tool_a_question_an_edit_and_a_branch(harbour: World) -> None:
    with reserved_port() as port:
        pass  # a server of node's would not share it
    env = {
        "runtime": {"SIGNALBOX_AGENT_FOLDERS": str(AGENTS)},
        "http_api": {"SIGNALBOX_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}"},
    }
    async with (
        async_browser() as browser,
        served_at(port) as url,
        platform(harbour, service_env=env, http_replicas=1) as running,
    ):
        page = await browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE_MS)
        await page.add_init_script(f"localStorage.setItem('lg:chat:apiKey', {running.token('27')!r})")
        api = f"http://{running.stack.http_apis[0].ready.listen}"
        await page.goto(f"{url}/?apiUrl={api}&assistantId=agent&chatHistoryOpen=true")
        heard = page.locator("body")
        await say(page, "Hello there")
        # Words are seen while they are said.
        await page.wait_for_function(
            "() => /word\\d/.test(document.body.innerText) && !/word29/.test(document.body.innerText)", polling=20
        )
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
        await say(page, "Send a mail")
        await expect(heard).to_contain_text("send_mail")
        await expect(page.get_by_role("button", name="Hello there").first).to_be_visible()
        await page.get_by_role("button", name="Approve", exact=True).click()
        await expect(heard).to_contain_text("The tool says: sent to ana@example.com")
        await page.reload()
        await expect(heard).to_contain_text("The tool says: sent to ana@example.com")
        await say(page, "Send a mail again")
        await page.get_by_role("button", name="Mark as Resolved").click()
        await expect(page.get_by_role("button", name="Mark as Resolved")).to_have_count(0)
