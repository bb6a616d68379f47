"""The report: one HTML file, complete in itself, that a person would rather look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from services.findings.investigation.repository import SourceCode
from services.findings.investigation.summary import Judged, Summary, scores_data, share
from services.findings.sarif.outcome import Evidence, Verdict
from services.kit.text.printing import printable

TEMPLATE = "report.html.j2"
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
    place: str
    lines: tuple[ShownLine, ...]
    missing: str = ""


async def render_report(summary: Summary, source: SourceCode) -> str:
    """Returns the report's HTML; everything that came from elsewhere is escaped. Raises CliError when git fails."""
    reader = _Excerpts(source)
    ordered = sorted(summary.judged, key=lambda each: (_ORDER[each.outcome.verdict], -(each.outcome.confidence or 0)))
    findings = [{"judged": each, "excerpts": await reader.of(each)} for each in ordered]
    environment = Environment(
        loader=PackageLoader("services.findings.investigation", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["share"] = share
    tokens_in, tokens_out = summary.tokens
    html: str = environment.get_template(TEMPLATE).render(
        summary=summary,
        findings=findings,
        names=_NAMES,
        verdicts=list(_ORDER),
        total=len(summary.judged),
        tokens=tokens_in + tokens_out,
        confidence=_histogram(summary.judged),
        scores=scores_data(summary.scores) if summary.scores else None,
    )
    return html


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

    def __init__(self, source: SourceCode) -> None:
        self._source = source
        self._files: dict[str, list[str]] = {}

    async def of(self, judged: Judged) -> list[Excerpt]:
        """Returns the code of each claim; that of the finding itself when no claim shows it."""
        location, cited = judged.finding.location, judged.outcome.evidence
        excerpts = [await self._around(evidence) for evidence in cited]
        covered = any(p.file == location.file and p.first_line <= location.first_line <= p.last_line for p in cited)
        if location.file and not covered:
            last_line = max(location.first_line, location.last_line)
            flagged = Evidence("Flagged by the scanner.", location.file, location.first_line, last_line, "")
            excerpts.insert(0, await self._around(flagged))
        return excerpts

    async def _around(self, evidence: Evidence) -> Excerpt:
        place = f"{evidence.file}:{evidence.first_line}"
        if evidence.last_line > evidence.first_line:
            place += f"-{evidence.last_line}"
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
