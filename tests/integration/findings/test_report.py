"""The report in a browser: thousands of findings, and a person's decisions on the way to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from signalbox.v1 import sast_pb2

from services.findings.investigation.decisions import read_decisions
from services.findings.investigation.links import RepositoryLinks
from services.findings.investigation.report import render_report
from services.findings.investigation.repository import SourceCode
from services.findings.investigation.summary import Judged, Summary
from services.findings.sarif.outcome import Outcome, Verdict
from services.findings.sarif.rules import Severity
from tests.fixtures.browser import async_browser
from tests.fixtures.page_checks import LOOKS, WIDE, opened, problems

SITE = "git@example.org:team/app.git"
COMMIT = "c" * 40


@pytest.mark.parametrize(
    ("uri", "link"),
    [
        ("https://name:secret@github.com/team/app.git", f"https://github.com/team/app/blob/{COMMIT}/a%20b.py#L3-L5"),
        (
            "ssh://git@gitlab.example.org:22/team/app",
            f"https://gitlab.example.org/team/app/-/blob/{COMMIT}/a%20b.py#L3-5",
        ),
        ("git@bitbucket.org:team/app.git", f"https://bitbucket.org/team/app/src/{COMMIT}/a%20b.py#lines-3:5"),
        ("javascript:alert(1)//x/y", ""),
        ("https://", ""),
        ("https://[::1", ""),
        ("/home/somebody/app", ""),
        ("", ""),
    ],
)
def test_lines_are_linked_where_their_site_is_known(uri: str, link: str) -> None:
    assert RepositoryLinks(uri, COMMIT).of("a b.py", 3, 5) == link


def apart(summary: Summary) -> Summary:
    """The same findings, each for a reason of its own: none stand under a reason together."""
    told = (replace(each.outcome, justification=f"Reason {number}.") for number, each in enumerate(summary.judged))
    judged = tuple(replace(each, outcome=outcome) for each, outcome in zip(summary.judged, told, strict=True))
    return replace(summary, judged=judged)


def many(count: int) -> Summary:
    """Findings of some rules, in files of ten, with each verdict."""
    judged = []
    for number in range(count):
        location = sast_pb2.CodeLocation(file=f"src/{number // 10:03}.py", first_line=number + 1, last_line=number + 1)
        finding = sast_pb2.Finding(
            fingerprint=f'f"<{number}>', rule_id=f"R{number % 7}", message="A name.", location=location
        )
        verdict = list(Verdict)[number % 3]
        judged.append(
            Judged(finding, Outcome(finding.fingerprint, verdict, None, f"Reason {number % 5}."), Severity.HIGH)
        )
    return Summary("app", COMMIT, tuple(judged), {})


@pytest.mark.browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_the_report_is_held_to_what_every_page_is(tmp_path: Path, width: int, scheme: Any) -> None:
    file = tmp_path / "report.html"
    file.write_text(await render_report(many(30), SourceCode(SITE, COMMIT)))
    async with async_browser() as browser:
        page = await opened(browser, width, scheme)
        await page.goto(file.as_uri())
        assert await problems(page, width) == []


# What a finding takes of a page, and what of a page is laid out before anybody scrolls or opens anything.
ELEMENTS_OF_A_FINDING = 16
LAID_OUT = 3000


@pytest.mark.browser
async def test_thousands_of_findings_open_at_once(tmp_path: Path) -> None:
    sizes, elements, laid_out = (300, 3000), [], 0
    async with async_browser() as browser:
        for count in sizes:
            file = tmp_path / f"{count}.html"
            file.write_text(await render_report(apart(many(count)), SourceCode(SITE, COMMIT)))
            page = await opened(browser, WIDE, "light")
            session = await page.context.new_cdp_session(page)
            await session.send("Performance.enable")
            await page.goto(file.as_uri())
            metrics = (await session.send("Performance.getMetrics"))["metrics"]
            elements.append(await page.locator("*").count())
            laid_out = next(each["value"] for each in metrics if each["name"] == "LayoutObjects")
    assert (elements[1] - elements[0]) / (sizes[1] - sizes[0]) <= ELEMENTS_OF_A_FINDING
    assert laid_out <= LAID_OUT


@pytest.mark.browser
async def test_decisions_of_a_person_are_saved_for_the_next_batch(tmp_path: Path) -> None:
    file, saved = tmp_path / "report.html", tmp_path / "decisions.yaml"
    file.write_text(await render_report(many(300), SourceCode(SITE, COMMIT)))
    async with async_browser() as chromium:
        page = await chromium.new_page(accept_downloads=True)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(file.as_uri())
        assert await page.locator("details.finding").count() > 100
        assert await page.locator("fieldset.decide").count() == 1
        # Only those of a verdict are left, and none of a rule that has none.
        await page.get_by_label("needs review").check()
        assert await page.locator("details.TRUE_POSITIVE:visible").count() == 0
        assert await page.locator("details.NEEDS_REVIEW:visible").count() > 0
        await page.get_by_label("all verdicts").check()
        await page.locator("details.finding summary").nth(1).click()
        await expect(page.locator("details[open] fieldset.decide")).to_have_count(2)
        first = page.locator("details[open] fieldset.decide").first
        assert await page.locator("#decisions").is_hidden()
        await first.get_by_label("it is harmless").check()
        await first.get_by_label("Why").fill("The name is a constant: \"x\" — 'y'.")
        expected = await first.evaluate("box => JSON.parse(box.closest('details').dataset.fingerprints)")
        link = await first.locator("xpath=..").locator("a").first.get_attribute("href")
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Save decisions.yaml").click()
        await (await download.value).save_as(saved)
    decisions = read_decisions(saved)
    assert [each.fingerprint for each in decisions] == expected
    assert all(not each.is_vulnerable and each.was is not None for each in decisions)
    assert decisions[0].reason == "The name is a constant: \"x\" — 'y'."
    assert link is not None
    assert link.startswith(f"https://example.org/team/app/blob/{COMMIT}/src/")
    assert problems == []
