"""A finding as a model reads it: every word of it, scanner's or repository's, is data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from signalbox.v1 import sast_pb2

from services.kit.telemetry.names import FINDING_ID
from services.runtime.agents.quoting import one_line, quoted

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


def place(location: sast_pb2.CodeLocation) -> str:
    """Returns a location as `"file":first-last`."""
    return f"{quoted(location.file)}:{location.first_line}-{last_line(location)}"


def last_line(location: sast_pb2.CodeLocation) -> int:
    """Returns the last line of a location; without one, its first."""
    return max(location.first_line, location.last_line)


def describe(finding: sast_pb2.Finding) -> str:
    """Returns the finding as a section of a prompt."""
    language = language_of(finding.location.file)
    lines = [
        "## Finding",
        f"rule: {quoted(finding.rule_id)}",
        f"cwe: {finding.cwe or 'none'}",
        f"language: {language or 'unknown'}",
        f"location: {place(finding.location)}",
        f"message: {quoted(finding.message)}",
    ]
    if finding.snippet:
        lines += ["snippet:", *(f"| {one_line(line)}" for line in finding.snippet.split("\n")[:SNIPPET_LINES])]
    lines += _places("trace", finding.trace)
    lines += _places("related", finding.related)
    return "\n".join(lines)


def _places(title: str, locations: Iterable[sast_pb2.CodeLocation]) -> list[str]:
    listed = list(locations)
    if not listed:
        return []
    shown = [f"- {place(location)} {quoted(location.message, 200)}" for location in listed[:PLACES_SHOWN]]
    left = len(listed) - len(shown)
    return [f"{title}:", *shown, *([f"- and {left} more"] if left else [])]


def _fingerprint(state: Mapping[str, Any]) -> str:
    return sast_pb2.Finding.FromString(state["finding"]).fingerprint


# What the decisions of an agent that looks at a finding carry.
finding_ids: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {FINDING_ID: _fingerprint}
