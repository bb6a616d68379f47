"""A finding as a model reads it: every word of it, scanner's or repository's, is data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from signalbox.v1 import sast_pb2

from services.kit.telemetry.names import FINDING_ID
from services.runtime.agents.quoting import cut, one_line

PLACES_SHOWN = 30
SNIPPET_LINES = 60
_LANGUAGES = {
    "python": ("py", "pyi", "pyw"),
    "c": ("c", "h"),
    "cpp": ("cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "ipp"),
    "java": ("java",),
    "go": ("go",),
    "javascript": ("js", "jsx", "mjs", "cjs"),
    "typescript": ("ts", "tsx", "mts", "cts"),
    "csharp": ("cs",),
    "php": ("php", "phtml"),
    "ruby": ("rb", "erb"),
    "rust": ("rs",),
    "kotlin": ("kt", "kts"),
    "html": ("html", "htm", "jinja", "j2", "jinja2"),
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}


def language_of(path: str) -> str:
    """Returns the language that a file's name tells, or an empty string."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.removeprefix(".").lower(), "")


def last_line(location: sast_pb2.CodeLocation) -> int:
    """Returns the last line of a location; without one, its first."""
    return max(location.first_line, location.last_line)


def described(finding: sast_pb2.Finding) -> dict[str, Any]:
    """Returns the finding as data of a prompt."""
    told: dict[str, Any] = {
        "rule": cut(finding.rule_id),
        "cwe": finding.cwe,
        "language": language_of(finding.location.file),
        **_place(finding.location),
        "message": cut(finding.message),
    }
    if finding.snippet:
        told["snippet"] = [one_line(line) for line in finding.snippet.split("\n")[:SNIPPET_LINES]]
    if finding.notes:
        told["notes"] = [cut(note) for note in finding.notes]
    return {**told, **_places("trace", finding.trace), **_places("related", finding.related)}


def _place(location: sast_pb2.CodeLocation) -> dict[str, Any]:
    return {"file": location.file, "first_line": location.first_line, "last_line": last_line(location)}


def _places(name: str, locations: Iterable[sast_pb2.CodeLocation]) -> dict[str, Any]:
    listed = list(locations)
    if not listed:
        return {}
    shown = [{**_place(location), "message": cut(location.message, 200)} for location in listed[:PLACES_SHOWN]]
    left = len(listed) - len(shown)
    return {name: shown, **({f"{name}_left_out": left} if left else {})}


def _fingerprint(state: Mapping[str, Any]) -> str:
    return sast_pb2.Finding.FromString(state["finding"]).fingerprint


def finding_title(asked: Any) -> str:
    """Returns what lists call a run on a finding: the rule, where it is, and what the analyser says."""
    finding = asked.finding
    return f"{finding.rule_id} at {finding.location.file}:{finding.location.first_line}: {finding.message}"


# What the decisions of an agent that looks at a finding carry.
finding_ids: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {FINDING_ID: _fingerprint}
