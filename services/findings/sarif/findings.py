"""From the results of a log to findings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from signalbox.v1 import sast_pb2

from services.findings.errors import BadLog
from services.findings.sarif.documents import parse_log
from services.findings.sarif.fingerprints import MAX_LENGTH, PROPERTY, Identity, fingerprints_of, original_message
from services.findings.sarif.log import Location, Log, PhysicalLocation, Region, Result, Run
from services.findings.sarif.paths import RepositoryPaths
from services.findings.sarif.rules import NO_RULE, RuleBook, Severity

MAX_PLACES = 100
# Places of one result that are looked at, each by a run of its own.
MAX_JUDGED_PLACES = 20
# What is put behind it to tell a result's places apart fits too.
MAX_RESULT_FINGERPRINT = MAX_LENGTH - 16
NO_PLACE = "The log names no file of the repository for this result, so there is no code to investigate."
MAX_MESSAGE_CHARACTERS = 4000
MAX_SNIPPET_CHARACTERS = 8000
MAX_PLACE_MESSAGE_CHARACTERS = 2000
MAX_RULE_CHARACTERS = 256
MAX_PATH_CHARACTERS = 1024
# The largest that the proto carries; no file has so many.
MAX_LINE = 2**31 - 1
# What analysers write where a snippet would stand.
_PLACEHOLDERS = frozenset({"requires login"})
_NOT_FAILURES = frozenset({"pass", "notApplicable", "informational"})


@dataclass(frozen=True)
class LogResult:
    """A result of the log at one of its places: the finding there if it is one, and the result in the document.

    fingerprint: the finding's; result: that of the whole result, which it shares with the other places. skipped says
    why it is no finding to investigate, unlocated why there is no code to look at, problem what is wrong with the
    result itself; nothing is asked about it then. notes: what of the result was left out because it can't be right.
    quoted: what the log says is written in the flagged lines. message: its words, those of its rule if it has none;
    own_message: its own, without a verdict of before.
    """

    fingerprint: str
    result: str
    finding: sast_pb2.Finding
    raw: dict[str, Any]
    skipped: str = ""
    unlocated: str = ""
    problem: str = ""
    notes: tuple[str, ...] = ()
    quoted: str = ""
    message: str = ""
    own_message: str = ""
    severity: Severity = Severity.MEDIUM

    @property
    def located(self) -> bool:
        """Whether there is code of the repository to look at."""
        return not self.unlocated


def read_results(document: dict[str, Any], paths: RepositoryPaths) -> list[LogResult]:
    """Returns every result of a log, in its order, at each of its places.

    Raises BadLog when two have one fingerprint of their own.
    """
    log = parse_log(document)
    found = list(_walk(log, document))
    books = [RuleBook(run) for run in log.runs]
    identities = [
        Identity(
            tool=log.runs[number].tool.driver.name,
            rule=books[number].rule_id_of(result),
            path=_path(result.locations, log.runs[number], paths),
            result=result,
            raw=raw,
        )
        for number, result, raw in found
    ]
    fingerprints = fingerprints_of(identities)
    _check_unique(fingerprints)
    return [
        each
        for (number, _, raw), identity, fingerprint in zip(found, identities, fingerprints, strict=True)
        for each in _at_places(identity, raw, fingerprint, books[number], log.runs[number], paths)
    ]


def _walk(log: Log, document: dict[str, Any]) -> Iterator[tuple[int, Result, Any]]:
    for number, (run, raw_run) in enumerate(zip(log.runs, document["runs"], strict=True)):
        raw_results = raw_run.get("results") if isinstance(raw_run, dict) else None
        for result, raw in zip(run.results, raw_results or (), strict=True):
            yield number, result, raw


def _at_places(
    identity: Identity, raw: Any, fingerprint: str, book: RuleBook, run: Run, paths: RepositoryPaths
) -> Iterator[LogResult]:
    """Yields a result once for each place that it flags; more places than are looked at are left open together."""
    result = identity.result
    places = _flagged_places(result, run, paths)
    whole = LogResult(
        fingerprint=fingerprint,
        result=fingerprint,
        finding=_finding(identity, fingerprint, book, run, paths),
        raw=raw if isinstance(raw, dict) else {},
        skipped=_skipped(result),
        problem="" if isinstance(raw, dict) else "it is no object",
        notes=result.notes,
        message=book.words_of(result),
        own_message=original_message(result),
        severity=book.severity_of(result),
    )
    if not places:
        yield replace(whole, unlocated=NO_PLACE)
    names = _names_of_places(fingerprint, places)
    for location, name in list(zip(places, names, strict=True))[:MAX_JUDGED_PLACES]:
        finding = sast_pb2.Finding()
        finding.CopyFrom(whole.finding)
        finding.fingerprint = name
        finding.snippet = clean(_snippet(location), MAX_SNIPPET_CHARACTERS)
        place = _place(location, run, paths)
        finding.ClearField("location")
        if place is not None:
            finding.location.CopyFrom(place)
        unlocated = _no_code(location, place, paths)
        yield replace(whole, fingerprint=name, finding=finding, unlocated=unlocated, quoted=_quoted(location))
    if len(places) > MAX_JUDGED_PLACES:
        more = f"The result flags {len(places) - MAX_JUDGED_PLACES} more places, which were not examined."
        yield replace(whole, fingerprint=f"{fingerprint[:MAX_RESULT_FINGERPRINT]}@more", unlocated=more)


def _flagged_places(result: Result, run: Run, paths: RepositoryPaths) -> list[Location]:
    """Returns the places that a result flags, each once; what names no file counts where nothing else is flagged."""
    physical = [each for each in result.locations if each.physical_location is not None] or list(result.locations)
    by_place: dict[tuple[str, int, int], Location] = {}
    for each in physical:
        by_place.setdefault((_path([each], run, paths), _region(each).start_line, _region(each).end_line), each)
    return list(by_place.values())


def _names_of_places(fingerprint: str, places: Sequence[Location]) -> list[str]:
    """Returns the fingerprint of each place: the result's for the first, and it with what is flagged for others."""
    numbers: Counter[str] = Counter()
    names = [fingerprint for _ in places[:1]]
    for place in places[1:]:
        physical = place.physical_location or PhysicalLocation()
        flagged = " ".join(_snippet(place).split()) or str(physical.region.start_line)
        what = f"{physical.artifact_location.uri}\0{flagged}"
        digest = hashlib.sha256(what.encode(errors="replace")).hexdigest()[:12]
        numbers[digest] += 1
        names.append(f"{fingerprint[:MAX_RESULT_FINGERPRINT]}@{digest}-{numbers[digest]}")
    return names


def _no_code(location: Location, place: sast_pb2.CodeLocation | None, paths: RepositoryPaths) -> str:
    if place is None or not paths.has(place.file):
        return NO_PLACE
    line = _region(location).start_line
    return f"The log puts this result on line {line}, which no file has." if line < 0 else ""


def _region(location: Location) -> Region:
    return (location.physical_location or PhysicalLocation()).region


def _check_unique(fingerprints: Iterable[str]) -> None:
    twice = [fingerprint for fingerprint, times in Counter(fingerprints).items() if times > 1]
    if twice:
        raise BadLog(f"two results have the fingerprint {twice[0]!r}", hint="give each one of its own")


def _skipped(result: Result) -> str:
    if result.kind in _NOT_FAILURES:
        return f"kind {result.kind}"
    if result.baseline_state == "absent":
        return "no longer there"
    theirs = [suppression for suppression in result.suppressions if PROPERTY not in suppression.properties]
    # One that is under review, or was rejected, leaves it a finding, whatever the others say (SARIF 3.27.23).
    accepted = all(suppression.status == "accepted" for suppression in theirs)
    return "suppressed already" if theirs and accepted else ""


def _finding(
    identity: Identity, fingerprint: str, book: RuleBook, run: Run, paths: RepositoryPaths
) -> sast_pb2.Finding:
    result = identity.result
    flow = [step for code_flow in result.code_flows[:1] for step in code_flow.thread_flows[:1]]
    trace = [_step(step.location, step.index, run) for thread in flow for step in thread.locations]
    return sast_pb2.Finding(
        fingerprint=fingerprint,
        rule_id=clean(identity.rule, MAX_RULE_CHARACTERS) or NO_RULE,
        cwe=book.cwe_of(result),
        message=clean(book.words_of(result), MAX_MESSAGE_CHARACTERS),
        trace=_ends(_places(trace, run, paths)),
        related=_places(result.related_locations, run, paths)[:MAX_PLACES],
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
    region = _region(location)
    # A result on a whole file is one on its first line: there is no other place to start from.
    first_line = min(max(region.start_line, 1), MAX_LINE)
    return sast_pb2.CodeLocation(
        file=path,
        first_line=first_line,
        last_line=min(max(region.end_line, first_line), MAX_LINE),
        message=clean(location.message.text, MAX_PLACE_MESSAGE_CHARACTERS),
    )


def _snippet(location: Location) -> str:
    physical = location.physical_location or PhysicalLocation()
    snippet = physical.region.snippet or physical.context_region.snippet
    return snippet.text if snippet else ""


def _quoted(location: Location) -> str:
    region = _region(location)
    text = region.snippet.text if region.snippet and region.start_line else ""
    return "" if text.strip() in _PLACEHOLDERS else text


def _ends(places: list[sast_pb2.CodeLocation]) -> list[sast_pb2.CodeLocation]:
    """Keeps the two ends of a trace that is too long: where data comes from, and where it goes."""
    if len(places) <= MAX_PLACES:
        return places
    return [*places[: MAX_PLACES // 2], *places[-(MAX_PLACES // 2) :]]


def clean(text: str, most: int) -> str:
    """Returns a text that a proto can carry: no NUL, no half surrogates, not too long."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:most]
