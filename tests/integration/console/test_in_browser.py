"""The console in a real browser: it follows a run through a gateway that goes away, and is used by keyboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from playwright.async_api import Browser, Page, expect
from signalbox.v1 import runs_pb2

from services.console.explained import Explained
from tests.fixtures.browser import async_browser
from tests.fixtures.ports import reserved_port
from tests.fixtures.walked_run import RUN_ID, TWO_QUERIES, explained
from tests.integration.console.conftest import Console, console_over
from tests.integration.console.fake_gateway import FakeGateway, fake_gateway, refusal, serving, waiting

pytestmark = pytest.mark.browser
TIMEOUT_MS = 60_000
# What a browser says of an answer that is an error, which the page says as well.
EXPECTED = "Failed to load resource"


@dataclass
class Opened:
    """A page, with what it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_browser() as started:
        yield started


async def opened(browser: Browser, console: Console, **options: Any) -> Opened:
    """Opens the console as its user does: with the address that it printed."""
    made = Opened(await (await browser.new_context(**options)).new_page())
    made.page.set_default_timeout(TIMEOUT_MS)
    made.page.on("request", lambda request: made.requests.append(request.url))
    made.page.on("console", lambda said: made.complaints.append(said.text) if EXPECTED not in said.text else None)
    made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
    await made.page.goto(console.address)
    return made


def running(shown: Explained, decisions: int) -> Explained:
    """A run that has come as far as some of its decisions."""
    partly = explained(list(TWO_QUERIES)[:decisions])
    partly.run.state = runs_pb2.RUN_STATE_RUNNING
    partly.run.ClearField("end_time")
    return Explained(partly.run, partly.decisions, shown.told, partly.story)


def changed(sequence: int) -> runs_pb2.RunEvent:
    """A step of the run."""
    return runs_pb2.RunEvent(sequence=sequence, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING))


async def test_it_goes_along_with_a_run_through_an_outage(browser: Browser) -> None:
    whole = explained()
    gateway = fake_gateway(running(whole, 2))
    gateway.events = [changed(1)]
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        port = stack.enter_context(reserved_port())
        await first.enter_async_context(serving(gateway, port))
        console = await stack.enter_async_context(console_over(port))
        seen = await opened(browser, console)
        page = seen.page
        await page.goto(f"{console.base}/runs/{RUN_ID}")
        await expect(page.locator("#live")).to_contain_text("follows the run")
        await page.locator("#decision-1 summary").click()
        await page.locator("#limit-max_iterations").fill("1")
        await page.locator("#decision-2 summary").focus()
        gateway.shown = running(whole, 4)
        gateway.events.append(changed(2))
        await expect(page.locator("details.decision")).to_have_count(4, timeout=TIMEOUT_MS)
        # What was opened, moved and focused stays so.
        assert await page.locator("details[open]").evaluate_all("all => all.map(each => each.id)") == ["decision-1"]
        assert await page.evaluate("document.activeElement.closest('details')?.id") == "decision-2"
        assert await page.locator("#limit-max_iterations").input_value() == "1"
        await expect(page.locator("#verdict")).to_have_class("elsewhere")

        await first.aclose()
        await expect(page.locator("#live")).to_contain_text("The gateway does not answer", timeout=TIMEOUT_MS)
        gateway.shown, gateway.runs[RUN_ID] = whole, whole.run
        gateway.events.append(runs_pb2.RunEvent(sequence=3, run_ended=runs_pb2.RunEnded(run=whole.run)))
        await stack.enter_async_context(serving(gateway, port))
        await expect(page.locator(".pill").first).to_have_text("answered", timeout=TIMEOUT_MS)
        await expect(page.locator("#live")).to_be_empty()
        assert await page.locator("details.decision").count() == len(TWO_QUERIES)
        assert seen.complaints == []


async def test_what_a_model_says_is_shown_until_its_step_has_ended(browser: Browser) -> None:
    whole = explained()
    gateway = fake_gateway(running(whole, 2))

    def chunk(offset: int, text: str, message: str = "m", node: str = "agent") -> runs_pb2.RunEvent:
        said = runs_pb2.TokenChunk(node=node, message_id=message, offset=offset, text=text)
        return runs_pb2.RunEvent(token_chunk=said)

    gateway.events = [
        chunk(0, "There are "), chunk(0, "There are <b>12"), chunk(15, "</b> of them."), chunk(40, " And more.")
    ]  # fmt: skip
    async with serving(gateway) as port, console_over(port) as console:
        seen = await opened(browser, console)
        await seen.page.goto(f"{console.base}/runs/{RUN_ID}")
        saying = seen.page.locator("#saying p")
        await expect(saying).to_have_text("There are <b>12</b> of them.… And more.", timeout=TIMEOUT_MS)
        completed = [runs_pb2.NodeCompleted(node=node) for node in ("agent", "judge")]
        gateway.events = [
            chunk(0, "Meanwhile.", "n", "judge"), changed(1), runs_pb2.RunEvent(sequence=2, node_completed=completed[0])
        ]  # fmt: skip
        await expect(saying).to_have_text("Meanwhile.", timeout=TIMEOUT_MS)
        gateway.events = [runs_pb2.RunEvent(sequence=3, node_completed=completed[1])]
        await expect(seen.page.locator("#saying")).to_be_hidden(timeout=TIMEOUT_MS)
        assert seen.complaints == []


async def test_what_a_model_says_is_shown_in_its_conversation(browser: Browser) -> None:
    whole = explained()
    begun = running(whole, 2)
    begun.run.thread_id = "talk"
    gateway = fake_gateway(begun)
    said = runs_pb2.TokenChunk(node="agent", message_id="m", text="There are <b>12")
    gateway.events = [runs_pb2.RunEvent(token_chunk=said)]
    async with serving(gateway) as port, console_over(port) as console:
        seen = await opened(browser, console)
        await seen.page.goto(f"{console.base}/threads/talk")
        await expect(seen.page.locator("#saying p")).to_have_text("There are <b>12", timeout=TIMEOUT_MS)
        gateway.events = [
            changed(1), runs_pb2.RunEvent(sequence=2, node_completed=runs_pb2.NodeCompleted(node="agent"))
        ]  # fmt: skip
        await expect(seen.page.locator("#saying")).to_be_hidden(timeout=TIMEOUT_MS)
        assert seen.complaints == []


async def test_the_page_of_an_agent_says_who_changed_its_limits(browser: Browser) -> None:
    gateway = fake_gateway(explained())
    async with serving(gateway) as port, console_over(port) as console:
        seen = await opened(browser, console)
        await seen.page.goto(f"{console.base}/routes?agent=data_chat")
        changes = seen.page.locator("section", has=seen.page.locator("#changes"))
        for said in ("max_iterations", "5 → 3", "ops@example.com", "1.1, revision 7", "the runs were long"):
            await expect(changes.get_by_text(said).first).to_be_visible()
        gateway.limit_changes_failure = refusal(grpc.StatusCode.PERMISSION_DENIED)
        await seen.page.reload()
        await expect(changes).to_contain_text("Only operators may see who changed them.")
        assert seen.complaints == []


async def test_a_click_that_has_begun_is_not_lost_to_news(browser: Browser) -> None:
    whole = explained()
    gateway = fake_gateway(running(whole, 2))
    async with serving(gateway) as port, console_over(port) as console:
        page = (await opened(browser, console)).page
        await page.goto(f"{console.base}/runs/{RUN_ID}")
        await expect(page.locator("#live")).to_contain_text("follows the run")
        await page.locator("#decision-1 summary").hover()
        await page.mouse.down()
        async with page.expect_response(f"{console.base}/runs/{RUN_ID}") as answered:
            gateway.shown = running(whole, 4)
            gateway.events.append(changed(1))
        await (await answered.value).finished()
        await page.mouse.up()
        await expect(page.locator("#decision-1")).to_have_attribute("open", "")
        await expect(page.locator("details.decision")).to_have_count(4, timeout=TIMEOUT_MS)
        await expect(page.locator("#decision-1")).to_have_attribute("open", "")


async def test_a_run_that_ended_while_its_page_was_too_slow_is_shown_in_the_end(browser: Browser) -> None:
    whole = explained()
    gateway = fake_gateway(running(whole, 2))
    gateway.events = [changed(1)]
    async with serving(gateway) as port, console_over(port) as console:
        page = (await opened(browser, console)).page
        await page.goto(f"{console.base}/runs/{RUN_ID}")
        await expect(page.locator("#live")).to_contain_text("follows the run")
        gateway.explain_failure = refusal(grpc.StatusCode.DEADLINE_EXCEEDED)
        gateway.shown, gateway.runs[RUN_ID] = whole, whole.run
        gateway.events.append(runs_pb2.RunEvent(sequence=2, run_ended=runs_pb2.RunEnded(run=whole.run)))
        await expect(page.locator("#live")).to_contain_text("did not answer in time", timeout=TIMEOUT_MS)
        gateway.explain_failure = None
        await expect(page.locator(".pill").first).to_have_text("answered", timeout=TIMEOUT_MS)


async def test_a_page_of_an_outage_goes_on_by_itself(browser: Browser, console: Console, gateway: FakeGateway) -> None:
    seen = await opened(browser, console)
    gateway.failure = refusal(grpc.StatusCode.UNAVAILABLE)
    await seen.page.goto(f"{console.base}/decisions")
    await expect(seen.page.get_by_role("alert")).to_contain_text("The gateway does not answer")
    gateway.failure = None
    await expect(seen.page.get_by_role("heading", name="Decisions")).to_be_visible(timeout=TIMEOUT_MS)


async def test_a_question_is_answered_with_the_keyboard_alone(
    browser: Browser, console: Console, gateway: FakeGateway
) -> None:
    gateway.question = waiting()
    page = (await opened(browser, console)).page
    await page.goto(f"{console.base}/questions")
    await page.get_by_role("link", name="Delete it?").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/questions/{RUN_ID}")
    await page.get_by_label("approve").focus()
    await page.keyboard.press("Space")
    gateway.answer_failure = refusal(grpc.StatusCode.FAILED_PRECONDITION, "bob was faster")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("bob was faster")
    assert await page.get_by_label("approve").is_checked()
    assert [(each.answer, each.plan_hash) for each in gateway.answers] == [("approve", "plan-1")]


async def test_a_filter_is_kept_under_a_name_by_the_browser(browser: Browser, console: Console) -> None:
    page = (seen := await opened(browser, console)).page
    saved = page.locator("#saved-filters")
    await expect(saved).to_be_hidden()
    await page.goto(f"{console.base}/runs?state=failed&since=2h&page=&agent=")
    # What the form would send again is what was asked for.
    assert await page.locator("#since").input_value() == "2h"
    await page.get_by_label("keep this filter as").fill("<i>night</i>")
    await page.keyboard.press("Enter")
    link = page.get_by_role("link", name="<i>night</i>")
    assert await link.get_attribute("href") == "/runs?state=failed&since=2h"
    assert await link.get_attribute("aria-current") == "true"
    await page.goto(f"{console.base}/runs")
    await expect(page.get_by_label("keep this filter as")).to_be_hidden()
    await link.click()
    await page.wait_for_url("**/runs?state=failed&since=2h")
    await page.get_by_role("button", name="Forget <i>night</i>").press("Enter")
    await expect(saved.get_by_role("status")).to_have_text("<i>night</i> is forgotten.")
    await page.goto(f"{console.base}/runs")
    await expect(saved).to_be_hidden()
    # What a browser keeps is no more than text to the page, whatever it is.
    for kept in ("{", "[1]", '[{"name": 1}]', "null"):
        await page.evaluate("kept => localStorage.setItem('signalbox.filters', kept)", kept)
        await page.goto(f"{console.base}/runs?state=failed")
        await expect(page.get_by_label("keep this filter as")).to_be_visible()
        await expect(saved.locator("li")).to_have_count(0)
    assert seen.complaints == []


async def test_without_scripts_a_filter_is_an_address(browser: Browser, console: Console) -> None:
    page = (await opened(browser, console, java_script_enabled=False)).page
    await page.goto(f"{console.base}/runs?state=failed")
    await expect(page.get_by_text("bookmark it to keep it")).to_be_visible()
    await expect(page.locator("#saved-filters")).to_be_hidden()
