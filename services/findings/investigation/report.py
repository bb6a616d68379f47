"""The report: one HTML file, complete in itself, that a person would rather look at.

Findings are grouped by rule and file. A reason stands there once a rule; others that ended for it lead there. What a
person decides of them is saved by the page as a file for `--decisions`.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from services.findings.investigation.links import RepositoryLinks
from services.findings.investigation.repository import SourceCode
from services.findings.investigation.summary import Judged, Summary, scores_data, share
from services.findings.sarif.outcome import Evidence, Outcome, Verdict
from services.findings.sarif.rules import Severity
from services.kit.text.printing import printable

PACKAGE = "services.findings.investigation"
TEMPLATE = "report.html.j2"
SCRIPT = "report.js"
CONTEXT_LINES = 4
MAX_SHOWN_LINES = 60
MAX_LINE_CHARACTERS = 400
CONFIDENCE_BARS = 10
_ORDER = {Verdict.TRUE_POSITIVE: 0, Verdict.NEEDS_REVIEW: 1, Verdict.FALSE_POSITIVE: 2}
_NAMES = {
    Verdict.TRUE_POSITIVE: "true positive",
    Verdict.FALSE_POSITIVE: "false positive",
    Verdict.NEEDS_REVIEW: "needs review",
}
# Those of a severity that nobody knows come last.
_SEVERITIES: Mapping[Severity | None, int] = {severity: number for number, severity in enumerate((*Severity, None))}


@dataclass(frozen=True)
class ShownLine:
    """A line of code; `cited` when the evidence, or the finding, is about it."""

    number: int
    text: str
    cited: bool


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file around a place. claim: what is said of them; missing: why they can't be shown."""

    claim: str
    place: LinkedPlace
    lines: tuple[ShownLine, ...]
    missing: str = ""


@dataclass(frozen=True)
class LinkedPlace:
    """Lines of a file, in words; link: their address on the repository's site, if it has one."""

    words: str
    link: str
    says: str = ""


@dataclass(frozen=True)
class FlaggedPlace:
    """A finding of a case: where it is, the code of its evidence, and the flow that the analyser saw, source first."""

    judged: Judged
    place: LinkedPlace
    excerpts: list[Excerpt]
    flow: list[LinkedPlace]


@dataclass(frozen=True)
class Case:
    """Findings of one rule in one file that say the same, and ended alike for the same reason.

    reason: what its reason is found by on the page; first: where that stands, if it is another case's.
    """

    outcome: Outcome
    places: list[FlaggedPlace]
    reason: str
    first: str

    @property
    def fingerprints(self) -> list[str]:
        """Those of its findings."""
        return [each.judged.finding.fingerprint for each in self.places]


@dataclass(frozen=True)
class RuleGroup:
    """A rule's findings, by file."""

    rule_id: str
    cwe: str
    severity: Severity | None
    counts: Mapping[Verdict, int]
    files: AsyncIterator[tuple[str, list[Case]]]


def _all_of(judged: Judged) -> Judged:
    """Returns a finding of which nothing is elsewhere."""
    return judged


async def render_report(
    summary: Summary, source: SourceCode, repository_uri: str = "", whole: Callable[[Judged], Judged] = _all_of
) -> AsyncIterator[str]:
    """Yields the report's HTML, piece by piece; everything that came from elsewhere is escaped.

    repository_uri: where the log says that the repository is, for links. whole: has all of a finding, of which the
    summary needs to hold no more than what is counted and sorted by; it is asked for those of one file at a time.
    Raises CliError when git fails.
    """
    uri = repository_uri if source.is_local else source.repository
    reader = _Excerpts(source, RepositoryLinks(uri, summary.commit))
    environment = Environment(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        enable_async=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["share"] = share
    tokens_in, tokens_out = summary.tokens
    script = files(PACKAGE).joinpath("templates", SCRIPT).read_text()
    pieces = environment.get_template(TEMPLATE).generate_async(
        summary=summary,
        rules=_by_rule(summary.judged, reader, whole),
        names=_NAMES,
        verdicts=list(_ORDER),
        total=len(summary.judged),
        tokens=tokens_in + tokens_out,
        confidence=_histogram(summary.judged),
        scores=scores_data(summary.scores) if summary.scores else None,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    async for piece in pieces:
        yield piece


def _by_rule(judged: Iterable[Judged], reader: _Excerpts, whole: Callable[[Judged], Judged]) -> list[RuleGroup]:
    """Groups findings; the rules whose findings are worst, and most often true, come first."""
    by_rule: dict[str, list[Judged]] = {}
    for each in judged:
        by_rule.setdefault(each.finding.rule_id, []).append(each)
    groups = []
    for rule_id, found in by_rule.items():
        found.sort(key=lambda each: each.finding.location.file)
        counts = Counter(each.outcome.verdict for each in found)
        groups.append(
            RuleGroup(
                rule_id,
                ", ".join(sorted({each.finding.cwe for each in found} - {""})),
                min((each.severity for each in found), key=_SEVERITIES.__getitem__),
                {verdict: counts[verdict] for verdict in _ORDER},
                _in_files(found, reader, whole),
            )
        )
    groups.sort(key=lambda each: (_SEVERITIES[each.severity], *(-each.counts[v] for v in _ORDER), each.rule_id))
    return groups


async def _in_files(
    found: Iterable[Judged], reader: _Excerpts, whole: Callable[[Judged], Judged]
) -> AsyncIterator[tuple[str, list[Case]]]:
    """Yields a rule's findings by file, in whose order they are."""
    reasons: dict[bytes, tuple[str, str]] = {}
    for file, of_file in groupby(found, key=lambda each: each.finding.location.file):
        yield file, await _cases([whole(each) for each in of_file], reader, reasons)


async def _cases(judged: list[Judged], reader: _Excerpts, reasons: dict[bytes, tuple[str, str]]) -> list[Case]:
    """Returns the findings of a file; `reasons` that were given before are told of there."""
    alike: dict[tuple[Any, ...], list[Judged]] = {}
    for each in sorted(judged, key=lambda each: (_ORDER[each.outcome.verdict], each.finding.location.first_line)):
        told = each.outcome
        words = told.verdict, told.justification, told.open_question, told.error, each.finding.message
        alike.setdefault((*words, told.confidence, told.decided_by), []).append(each)
    cases = []
    for found in alike.values():
        told, places = found[0].outcome, [await reader.of(each) for each in found]
        reason = _digest(told.verdict, told.justification, told.open_question, told.error)
        name, first = reasons.get(reason, (f"reason-{found[0].finding.fingerprint}", ""))
        reasons.setdefault(reason, (name, places[0].place.words))
        cases.append(Case(told, places, name, first))
    return cases


def _digest(*texts: str) -> bytes:
    """Returns what texts are known by, however long they are."""
    return hashlib.sha256(repr(texts).encode()).digest()


def _histogram(judged: Sequence[Judged]) -> list[Mapping[str, Any]]:
    """Counts findings by confidence and verdict, in tenths; empty when no confidence was measured."""
    measured = [
        (each.outcome.confidence, each.outcome.verdict) for each in judged if each.outcome.confidence is not None
    ]
    if not measured:
        return []
    bars: list[dict[Verdict, int]] = [dict.fromkeys(_ORDER, 0) for _ in range(CONFIDENCE_BARS)]
    for confidence, verdict in measured:
        bars[min(int(confidence * CONFIDENCE_BARS), CONFIDENCE_BARS - 1)][verdict] += 1
    highest = max(sum(bar.values()) for bar in bars)
    return [
        {"low": number / CONFIDENCE_BARS, "counts": bar, "height": 100 * sum(bar.values()) / highest}
        for number, bar in enumerate(bars)
    ]


class _Excerpts:
    """Reads pieces of files, each file once."""

    def __init__(self, source: SourceCode, links: RepositoryLinks) -> None:
        self._source = source
        self._links = links
        self._files: dict[str, list[str]] = {}

    async def of(self, judged: Judged) -> FlaggedPlace:
        """Returns a finding with the code of each claim; its own when no claim shows it."""
        location, cited = judged.finding.location, judged.outcome.evidence
        excerpts = [await self._around(evidence) for evidence in cited]
        covered = any(p.file == location.file and p.first_line <= location.first_line <= p.last_line for p in cited)
        if location.file and not covered:
            last_line = max(location.first_line, location.last_line)
            flagged = Evidence("Flagged by the scanner.", location.file, location.first_line, last_line, "")
            excerpts.insert(0, await self._around(flagged))
        flow = [self._place(step.file, step.first_line, step.last_line, step.message) for step in judged.finding.trace]
        where = self._place(location.file, location.first_line, location.last_line, "")
        return FlaggedPlace(judged, where, excerpts, flow)

    def _place(self, file: str, first_line: int, last_line: int, says: str) -> LinkedPlace:
        words = f"{file}:{first_line}" + (f"-{last_line}" if last_line > first_line else "")
        return LinkedPlace(words if file else "(no place)", self._links.of(file, first_line, last_line), says)

    async def _around(self, evidence: Evidence) -> Excerpt:
        place = self._place(evidence.file, evidence.first_line, evidence.last_line, "")
        lines = await self._lines(evidence.file)
        if not lines or evidence.first_line > len(lines):
            where = "is not at this commit" if self._source.is_local else "is not on this machine"
            return Excerpt(evidence.claim, place, (), f"The code {where}. {evidence.quote}")
        first = max(1, evidence.first_line - CONTEXT_LINES)
        last = min(len(lines), evidence.last_line + CONTEXT_LINES, first + MAX_SHOWN_LINES - 1)
        shown = (
            ShownLine(
                number,
                printable(lines[number - 1][:MAX_LINE_CHARACTERS]),
                evidence.first_line <= number <= evidence.last_line,
            )
            for number in range(first, last + 1)
        )
        return Excerpt(evidence.claim, place, tuple(shown))

    async def _lines(self, path: str) -> list[str]:
        if path not in self._files:
            self._files[path] = await self._source.lines(path)
        return self._files[path]
