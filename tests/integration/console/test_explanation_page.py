"""The page that explains a run, in a real browser: it shows, opens, decides, prints, and asks nobody anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from playwright.sync_api import Browser, BrowserContext, Page

from services.console.explained import Explained
from services.console.explanation_page.page import render_page
from services.kit.text.printing import printable
from tests.fixtures.browser import browser
from tests.fixtures.walked_run import RUN_ID, TWO_QUERIES, agent_facts, explained, tool_facts

pytestmark = pytest.mark.browser
__all__ = ["browser"]
WIDE, NARROW = {"width": 1240, "height": 900}, {"width": 380, "height": 800}
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "\"'><svg onload=window.hacked=3>",
    "{{ 7 * 7 }} {% raw %}",
    "<!--<script>",
    "javascript:window.hacked=4",
    "]]></style><style>body{background:url(http://127.0.0.1:9/leak)}</style>",
    "\u2028\u2029\u202e\x1b[31m\x07",
]


@dataclass
class Opened:
    """A page, with what it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Writes a page to a file and opens that, as a person would."""
    contexts: list[BrowserContext] = []

    def opened(shown: Explained, *, fragment: str = "", **options: Any) -> Opened:
        path = tmp_path / f"{len(contexts)}.html"
        path.write_text(render_page(shown), "utf-8")
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        made = Opened(context.new_page())
        made.page.on("request", lambda request: made.requests.append(request.url))
        made.page.on("console", lambda message: made.complaints.append(message.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.on("dialog", lambda dialog: made.complaints.append(dialog.message))
        made.page.goto(path.as_uri() + fragment)
        return made

    yield opened
    for context in contexts:
        context.close()


def test_it_shows_the_run_and_asks_nobody_anything(open_page: Open) -> None:
    opened = open_page(explained())
    page = opened.page
    assert page.title() == f"data_chat · {RUN_ID}"
    assert page.locator(".pill").first.inner_text() == "answered"
    taken = page.locator(".graph .node.taken text:not(.visits)").all_text_contents()
    assert taken == ["screen_question", "agent", "tools", "format_answer", "end"]
    assert sorted(page.locator(".badge text").all_text_contents()) == ["1", "2 · 4", "3", "5"]
    assert page.locator(".lane-name").all_inner_texts()[:4] == ["nodes", "guard", "model", "sql_executor"]
    assert page.locator(".takeover").count() > 0
    assert page.locator("details.decision").count() == len(TWO_QUERIES)
    page.mouse.wheel(0, 5000)
    page.keyboard.press("a")
    assert opened.requests == [page.url]
    assert opened.complaints == []


def test_what_its_policy_does_not_know_does_not_run(open_page: Open) -> None:
    opened = open_page(explained())
    with opened.page.expect_event("requestfailed") as refused:
        opened.page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.hacked = 1";
                document.body.append(script);
                const image = document.createElement("img");
                image.src = "http://127.0.0.1:9/leak.png";
                document.body.append(image);
            }"""
        )
    assert refused.value.failure == "csp"
    assert opened.page.evaluate("window.hacked") is None
    assert sum("Content Security Policy" in complaint for complaint in opened.complaints) == 2


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_comes_from_a_run_is_text(open_page: Open, hostile: str) -> None:
    steps = [
        *TWO_QUERIES[:2],
        ("tools", tool_facts(1, have_result=False, error=hostile)),
        ("agent", agent_facts(2, budget_spent=hostile)),
    ]
    shown = explained(steps, question=hostile, name=hostile, subject=hostile, asks=hostile)
    # Names of rules, nodes and limits are the platform's; but a page may be of another's platform.
    shown.decisions[0].rule = shown.decisions[0].router = shown.decisions[0].node = hostile
    shown.story.route[0].node = hostile
    shown.story.agent.limits[0].name = hostile
    shown.story.agent.nodes[1].rules[0].rule = hostile
    shown.run.run_id = shown.run.error = shown.run.stop_reason = shown.run.agent = hostile
    opened = open_page(shown)
    page = opened.page
    page.keyboard.press("a")
    for slider in page.locator("#sliders input").all():
        slider.fill("1")
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 3
    assert page.locator("style").count() == 1
    assert page.locator("img, iframe, object, embed, form, base").count() == 0
    assert (
        page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => /^on|^style$/.test(n))"
        )
        == []
    )
    links = page.evaluate("[...document.querySelectorAll('[href]')].map(e => e.getAttribute('href'))")
    assert {link[:1] for link in links if not link.startswith("data:,")} == {"#"}
    assert opened.requests == [page.url]
    assert opened.complaints == []
    assert not {"\x1b", "\x07", "\u202e"} & set(page.inner_text("body"))
    assert printable(hostile).strip() in page.inner_text("header")


def test_decisions_open_on_click_from_the_graph_and_by_address(open_page: Open) -> None:
    page = open_page(explained()).page
    second = page.locator("#decision-2")
    assert not second.evaluate("each => each.open")
    second.locator("summary").click()
    assert second.evaluate("each => each.open")
    rules = second.locator("table.rules tbody tr, table.rules tr").all_inner_texts()
    assert any("iteration_limit" in text and "1 of 3 iterations" in text for text in rules)
    assert "sql_executor" in second.inner_text()
    page.locator(".badge", has_text="3").click()
    assert page.locator("#decision-3").evaluate("each => each.open")
    assert page.evaluate("location.hash") == "#decision-3"
    page.locator(".lane a").nth(3).click()
    named = open_page(explained(), fragment="#decision-5").page
    assert named.locator("#decision-5").evaluate("each => each.open")


def test_it_is_used_with_the_keyboard_alone(open_page: Open) -> None:
    page = open_page(explained()).page

    def focused() -> str:
        found: str = page.evaluate("document.activeElement.closest('details')?.id ?? ''")
        return found

    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert focused() == "decision-2"
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    page.keyboard.press("a")
    assert page.locator("details[open]").count() == len(TWO_QUERIES)
    page.keyboard.press("a")
    assert page.locator("details[open]").count() == 0
    page.locator("#limit-max_iterations").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#verdict").get_attribute("class") == "elsewhere"


def test_other_limits_are_tried_in_the_page(open_page: Open) -> None:
    page = open_page(explained()).page
    verdict, slider = page.locator("#verdict"), page.locator("#limit-max_iterations")
    slider.fill("2")
    assert "left its way at decision 4: iteration_limit → format_answer instead of tool_calls → tools" in (
        verdict.inner_text()
    )
    assert page.locator("#decision-4 .other").inner_text() == "would be iteration_limit → format_answer"
    assert page.locator("details.moot").count() == 1
    slider.fill("6")
    assert verdict.inner_text() == "The run would have gone the same way."
    page.locator("#reset").click()
    assert (slider.input_value(), page.locator("#reset").is_visible()) == ("3", False)
    assert verdict.inner_text().startswith("Move a limit")


def test_a_large_whole_limit_is_tried_one_step_off(open_page: Open) -> None:
    shown = explained()
    [limit] = [each for each in shown.story.agent.limits if each.name == "max_iterations"]
    limit.value.number_value = 2000
    limit.ClearField("most")
    for decision in shown.decisions[3:4]:
        decision.facts["iteration_count"] = 1999
    page = open_page(shown).page
    slider = page.locator("#limit-max_iterations")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert (slider.input_value(), page.locator(".limit output").first.inner_text()) == ("1999", "1999")
    assert page.locator("#verdict").get_attribute("class") == "elsewhere"


def test_taking_back_leaves_the_keyboard_at_what_was_moved(open_page: Open) -> None:
    page = open_page(explained()).page
    page.locator("#limit-max_error_attempts").fill("2")
    page.locator("#reset").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "limit-max_error_attempts"


def test_a_decision_that_the_tables_would_not_make_again_is_not_guessed_at(open_page: Open) -> None:
    shown = explained()
    shown.decisions[3].rule = "a_rule_of_before"
    page = open_page(shown).page
    page.locator("#limit-max_iterations").fill("2")
    said = page.locator("#verdict").inner_text()
    assert said == "The run would have gone the same way, as far as 4 of its 5 decisions can be made again."


def test_ids_are_copied(open_page: Open) -> None:
    page = open_page(explained(), permissions=["clipboard-read", "clipboard-write"]).page
    page.get_by_label("Copy run").click()
    page.get_by_text("copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == RUN_ID


def test_the_result_is_copied_as_json(open_page: Open) -> None:
    told = explained()
    told.run.output.data_chat.answer = 'Twelve: "größer" <b>\u202e'
    page = open_page(told, permissions=["clipboard-read", "clipboard-write"]).page
    page.get_by_text("As JSON").click()
    page.locator(".as-json .copy").click()
    page.locator(".as-json").get_by_text("copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied) == MessageToDict(told.run.output.data_chat, preserving_proto_field_name=True)


def test_it_is_light_and_dark_and_narrow(open_page: Open) -> None:
    def background(page: Page) -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light, dark = (open_page(explained(), color_scheme=scheme).page for scheme in ("light", "dark"))
    assert background(light) != background(dark)
    narrow = open_page(explained(question="word" * 200), viewport=NARROW).page
    narrow.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert narrow.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_on_paper_everything_is_open(open_page: Open) -> None:
    page = open_page(explained()).page
    page.evaluate(
        """addEventListener("beforeprint", () => {
            window.printed = document.querySelectorAll("details[open]").length;
        })"""
    )
    page.pdf()
    assert page.evaluate("window.printed") == len(TWO_QUERIES)
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    assert not page.locator(".what-if").is_visible()
    assert not page.locator(".copy").first.is_visible()


def test_traffic_of_all_runs_is_drawn_where_it_is_known(open_page: Open) -> None:
    traffic = {("screen_question", "agent"): 1200, ("agent", "tools"): 900, ("agent", "format_answer"): 40}
    page = open_page(explained(traffic=traffic)).page
    # What came to the answer's wording went on from there, which no router decides.
    assert page.locator(".traffic text").all_text_contents() == ["40", "40"]
    titles = page.locator(".edge title").all_text_contents()
    assert any(title.endswith("passed once by this run · 1,200 times by all runs") for title in titles)
    without = open_page(explained()).page
    assert "all runs" not in without.content()
