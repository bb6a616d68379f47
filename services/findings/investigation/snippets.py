"""Whether the lines that a log flags are there at the commit, and read as it quotes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signalbox.v1 import sast_pb2

from services.findings.investigation.repository import SourceCode
from services.findings.sarif.findings import LogResult
from services.kit.text.quotes import is_quoted, squeezed


async def with_checked_snippets(results: Sequence[LogResult], source: SourceCode) -> list[LogResult]:
    """Returns the results, those whose snippet contradicts the commit without it, and with a note of that.

    Where a file ends before what is flagged, there is no code to look at. Of a repository that is not on this machine,
    they ask the platform to look.
    """
    if not source.is_local:
        return [_to_be_checked(result) for result in results]
    lines: dict[str, list[str]] = {}
    checked = []
    for result in results:
        file, looked_at = result.finding.location.file, result.located and not result.problem and not result.skipped
        if looked_at and file not in lines:
            lines[file] = await source.lines(file)
        checked.append(_checked(result, lines[file]) if looked_at and lines[file] else result)
    return checked


def _checked(result: LogResult, lines: Sequence[str]) -> LogResult:
    place = result.finding.location
    # Some analysers flag the end of a file as the line behind its last; others end lines at a carriage return alone.
    if place.first_line > max(len(lines), len("\n".join(lines).splitlines()) + 1):
        told = f"The log puts this result on line {place.first_line:,} of {place.file}, which ends before that."
        return replace(result, unlocated=told)
    said = contradiction(result, lines) if result.quoted else ""
    return _without_snippet(result, said) if said else result


def _without_snippet(result: LogResult, note: str) -> LogResult:
    finding = sast_pb2.Finding()
    finding.CopyFrom(result.finding)
    finding.ClearField("snippet")
    finding.notes.append(note)
    return replace(result, finding=finding, notes=(*result.notes, note))


def _to_be_checked(result: LogResult) -> LogResult:
    """Has the platform hold the snippet against the commit, where a log quotes the flagged lines themselves."""
    finding = sast_pb2.Finding()
    finding.CopyFrom(result.finding)
    finding.check_snippet = bool(result.quoted.strip())
    return replace(result, finding=finding)


def contradiction(result: LogResult, lines: Sequence[str]) -> str:
    """Returns what is wrong when what a log quotes does not stand in the flagged lines, or an empty text."""
    place, snippet = result.finding.location, result.quoted
    last = max(place.last_line, place.first_line + snippet.count("\n"))
    # Analysers differ in whether a carriage return alone ends a line.
    for numbered in (lines, "\n".join(lines).replace("\r", "\n").split("\n")):
        if is_quoted(snippet, "\n".join(numbered[place.first_line - 1 : last])):
            return ""
    quoted = squeezed(snippet)[:80]
    shown = squeezed("\n".join(lines[place.first_line - 1 : last]))[:80] or "nothing"
    return (
        f"the log's snippet {quoted!r} is not what stands at {place.file}:{place.first_line}, which is {shown!r}: the "
        "finding was looked at without it"
    )
