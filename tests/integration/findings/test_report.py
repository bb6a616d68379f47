"""The report in a browser: thousands of findings, and a person's decisions on the way to a file."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
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


async def rendered(summary: Summary, source: SourceCode) -> str:
    """The report as a file holds it."""
    return "".join([piece async for piece in render_report(summary, source)])


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


def has_code(monkeypatch: pytest.MonkeyPatch, code: list[str]) -> None:
    """Has every file of a repository the same lines."""

    async def lines(_source: SourceCode, _path: str) -> list[str]:
        return code

    monkeypatch.setattr(SourceCode, "lines", lines)


@pytest.mark.browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_the_report_is_held_to_what_every_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, scheme: Any
) -> None:
    has_code(monkeypatch, ["x = 1", "", f"call({'argument, ' * 40})"] * 20)
    file = tmp_path / "report.html"
    file.write_text(await rendered(many(30), SourceCode(SITE, COMMIT)))
    async with async_browser() as browser:
        page = await opened(browser, width, scheme)
        await page.goto(file.as_uri())
        assert await problems(page, width) == []


def judged(rule: str, file: str, line: int, severity: Severity, **told: Any) -> Judged:
    location = sast_pb2.CodeLocation(file=file, first_line=line, last_line=line)
    source = sast_pb2.CodeLocation(file="src/in.py", first_line=1, message="read here")
    sink = sast_pb2.CodeLocation(file=file, first_line=line, message="run here")
    finding = sast_pb2.Finding(
        fingerprint=f"{rule}-{file}-{line}", rule_id=rule, cwe="CWE-78", message=f"Line {line}.", location=location,
        trace=[source, sink],
    )  # fmt: skip
    given = {"verdict": Verdict.FALSE_POSITIVE, "confidence": None, "justification": f"Of {rule} {line}.", **told}
    return Judged(finding, Outcome(finding.fingerprint, **given), severity)


async def test_the_report_says_in_order_what_was_found_read_and_left_open() -> None:
    review = {"verdict": Verdict.NEEDS_REVIEW, "justification": "Nobody knows who calls it.", "open_question": "Who?"}
    found = [
        judged("R-low", "src/a.py", 1, Severity.LOW, verdict=Verdict.TRUE_POSITIVE, confidence=0.95),
        judged("R-high", "src/b.py", 2, Severity.HIGH, read=("src/b.py:1-40",), **review),
        judged("R-high", "src/a.py", 3, Severity.HIGH),
        judged("R-high", "src/b.py", 4, Severity.HIGH, **review),
        judged("R-high", "src/c.py", 5, Severity.HIGH, **review),
        judged("R-true", "src/a.py", 6, Severity.HIGH, verdict=Verdict.TRUE_POSITIVE, confidence=0.9),
    ]
    shown = Shown(await rendered(Summary("app", COMMIT, tuple(found), {}), SourceCode(SITE, COMMIT)))
    # The worst rules first, of these what is true; in a rule by file, and each finding under its own.
    assert shown.of("h3") == ["R-true", "R-high", "R-low"]
    assert shown.of("h4") == ["src/a.py", "src/a.py", "src/b.py", "src/c.py", "src/a.py"]
    said = [text for text in shown.of("summary") if text.startswith("Line ")]
    assert said == ["Line 6.", "Line 3.", "Line 2.", "Line 4.", "Line 5.", "Line 1."]
    text = " ".join(shown.of("main"))
    assert "source src/in.py:1 read here sink src/b.py:2 run here" in text
    assert text.count("Read: src/b.py:1-40") == 1
    # A reason, with what it leaves open, stands there once, and those that ended for it too lead there.
    assert (text.count("Nobody knows who calls it."), text.count("Open: Who?")) == (1, 1)
    assert text.count("For the same reason as src/b.py:2 .") == 2
    assert len(set(shown.targets)) == 1
    assert shown.targets[0].removeprefix("#") in shown.ids
    # How verdicts are distributed: over severities and weaknesses, and by confidence where that was measured.
    assert "By severity true positive needs review false positive high 1 3 1 low 1" in text
    assert "By weakness true positive needs review false positive CWE-78 2 3 1" in text
    assert [title for title in shown.titles if title.startswith("0.9")] == ["0.9 and up: 2"]


async def test_numbers_stand_beside_their_lines_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    code = ["", "import os", "", "os.system(name)", "", "&lt;"]
    has_code(monkeypatch, code)
    found = judged("R", "src/a.py", 4, Severity.HIGH)
    page = await rendered(Summary("app", COMMIT, (found,), {}), SourceCode(SITE, COMMIT))
    texts = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    # As browsers read them: without the line break that each may begin with.
    numbers, shown = (html.unescape(re.sub("<.*?>", "", text)).removeprefix("\n").split("\n") for text in texts)
    assert dict(zip(numbers, shown, strict=True)) == {"": "", **{str(n): line for n, line in enumerate(code, 1)}}


class Shown(HTMLParser):
    """The texts of a page by what they stand in, what its links lead to inside of it, its ids and titles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._texts: list[tuple[tuple[str, ...], str]] = []
        self._within: list[str] = []
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.titles: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enters an element."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given.get("id", "")}
        self.titles += [given["title"]] if "title" in given else []
        self.targets += [given["href"]] if given.get("href", "").startswith("#") else []
        if tag not in ("meta", "input"):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leaves it."""
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Notes a text."""
        if data.strip():
            self._texts.append((tuple(self._within), " ".join(data.split())))

    def of(self, tag: str) -> list[str]:
        """Returns the texts in elements of a tag."""
        return [text for within, text in self._texts if tag in within]


# What a finding takes of a page, and what of a page is laid out before anybody scrolls or opens anything.
ELEMENTS_OF_A_FINDING = 16
LAID_OUT = 3000


@pytest.mark.browser
async def test_thousands_of_findings_open_at_once(tmp_path: Path) -> None:
    sizes, elements, laid_out = (300, 3000), [], 0
    async with async_browser() as browser:
        for count in sizes:
            file = tmp_path / f"{count}.html"
            file.write_text(await rendered(apart(many(count)), SourceCode(SITE, COMMIT)))
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
    file.write_text(await rendered(many(300), SourceCode(SITE, COMMIT)))
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
