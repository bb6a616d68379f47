"""From the results of a log to findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox.v1 import sast_pb2

from services.findings.errors import BadLog
from services.findings.sarif.documents import off_schema_results, parse_log, without_results, written
from services.findings.sarif.fingerprints import PROPERTY, Identity, fingerprints_of
from services.findings.sarif.log import Location, Log, PhysicalLocation, Result, Run
from services.findings.sarif.paths import RepositoryPaths
from services.findings.sarif.rules import RuleBook

MAX_PLACES = 100
MAX_MESSAGE_CHARACTERS = 4000
MAX_SNIPPET_CHARACTERS = 8000
MAX_PLACE_MESSAGE_CHARACTERS = 2000
MAX_RULE_CHARACTERS = 256
MAX_PATH_CHARACTERS = 1024
# The largest that the proto carries; no file has so many.
MAX_LINE = 2**31 - 1
_NOT_FAILURES = frozenset({"pass", "notApplicable", "informational"})


@dataclass(frozen=True)
class LogResult:
    """A result of the log: its fingerprint, the finding if it is one, and the result in the document.

    skipped says why it is no finding to investigate. located is False when it names no file of the repository. problem
    says what is wrong with the result itself; nothing is asked about it then.
    """

    fingerprint: str
    finding: sast_pb2.Finding
    raw: dict[str, Any]
    skipped: str = ""
    located: bool = True
    problem: str = ""


def read_results(document: dict[str, Any], paths: RepositoryPaths) -> list[LogResult]:
    """Returns every result of a log, in its order. Raises BadLog when two have one fingerprint of their own."""
    wrong = off_schema_results(document)
    log = parse_log(without_results(document, wrong))
    found = list(_walk(log, document))
    books = [RuleBook(run) for run in log.runs]
    identities = [
        Identity(
            tool=log.runs[number].tool.driver.name,
            rule=books[number].rule_id_of(result),
            path=_path(result.locations, log.runs[number], paths),
            result=result,
            raw=raw if (number, index) not in wrong else {"properties": {}, "off_schema": written(raw)},
        )
        for number, index, result, raw in found
    ]
    results = [
        LogResult(
            fingerprint=fingerprint,
            finding=_finding(identity, fingerprint, books[number], log.runs[number], paths),
            raw=raw if isinstance(raw, dict) else {},
            skipped=_skipped(identity.result),
            located=paths.has(identity.path),
            problem=f"it breaks the SARIF schema: {wrong[number, index]}" if (number, index) in wrong else "",
        )
        for (number, index, _, raw), identity, fingerprint in zip(
            found, identities, fingerprints_of(identities), strict=True
        )
    ]
    _check_unique(results)
    return results


def _walk(log: Log, document: dict[str, Any]) -> Iterator[tuple[int, int, Result, Any]]:
    for number, (run, raw_run) in enumerate(zip(log.runs, document["runs"], strict=True)):
        for index, (result, raw) in enumerate(zip(run.results or (), raw_run.get("results") or (), strict=True)):
            yield number, index, result, raw


def _check_unique(results: Sequence[LogResult]) -> None:
    seen: set[str] = set()
    for result in results:
        if result.fingerprint in seen:
            raise BadLog(f"two results have the fingerprint {result.fingerprint!r}", hint="give each one of its own")
        seen.add(result.fingerprint)


def _skipped(result: Result) -> str:
    if result.kind in _NOT_FAILURES:
        return f"kind {result.kind}"
    if result.baseline_state == "absent":
        return "no longer there"
    theirs = [suppression for suppression in result.suppressions or () if PROPERTY not in suppression.properties]
    return "suppressed already" if any(suppression.status == "accepted" for suppression in theirs) else ""


def _finding(
    identity: Identity, fingerprint: str, book: RuleBook, run: Run, paths: RepositoryPaths
) -> sast_pb2.Finding:
    result = identity.result
    flow = [step for code_flow in result.code_flows[:1] for step in code_flow.thread_flows[:1]]
    trace = [_step(step.location, step.index, run) for thread in flow for step in thread.locations]
    return sast_pb2.Finding(
        fingerprint=fingerprint,
        rule_id=clean(identity.rule, MAX_RULE_CHARACTERS),
        cwe=book.cwe_of(result),
        message=clean(book.words_of(result), MAX_MESSAGE_CHARACTERS),
        location=_place(result.locations[0], run, paths) if result.locations else None,
        snippet=clean(_snippet(result), MAX_SNIPPET_CHARACTERS),
        trace=_ends(_places(trace, run, paths)),
        related=_places((*result.locations[1:], *result.related_locations), run, paths)[:MAX_PLACES],
    )


def _step(location: Location | None, index: int, run: Run) -> Location:
    if location is None and 0 <= index < len(run.thread_flow_locations):
        location = run.thread_flow_locations[index].location
    return location or Location()


def _path(locations: Sequence[Location], run: Run, paths: RepositoryPaths) -> str:
    physical = locations[0].physical_location if locations else None
    path = paths.of(physical.artifact_location, run) if physical else ""
    return clean(path, MAX_PATH_CHARACTERS)


def _places(locations: Iterable[Location], run: Run, paths: RepositoryPaths) -> list[sast_pb2.CodeLocation]:
    places = (_place(location, run, paths) for location in locations)
    return [place for place in places if place is not None]


def _place(location: Location, run: Run, paths: RepositoryPaths) -> sast_pb2.CodeLocation | None:
    path = _path([location], run, paths)
    if not path:
        return None
    region = (location.physical_location or PhysicalLocation()).region
    # A result on a whole file is one on its first line: there is no other place to start from.
    first_line = min(max(region.start_line, 1), MAX_LINE)
    return sast_pb2.CodeLocation(
        file=path,
        first_line=first_line,
        last_line=min(max(region.end_line, first_line), MAX_LINE),
        message=clean(location.message.text, MAX_PLACE_MESSAGE_CHARACTERS),
    )


def _snippet(result: Result) -> str:
    physical = result.locations[0].physical_location if result.locations else None
    if physical is None:
        return ""
    snippet = physical.region.snippet or physical.context_region.snippet
    return snippet.text if snippet else ""


def _ends(places: list[sast_pb2.CodeLocation]) -> list[sast_pb2.CodeLocation]:
    """Keeps the two ends of a trace that is too long: where data comes from, and where it goes."""
    if len(places) <= MAX_PLACES:
        return places
    return [*places[: MAX_PLACES // 2], *places[-(MAX_PLACES // 2) :]]


def clean(text: str, most: int) -> str:
    """Returns a text that a proto can carry: no NUL, no half surrogates, not too long."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:most]
