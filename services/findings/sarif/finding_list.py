"""Findings that are no SARIF: a JSON list of them, one of them, or what Bandit writes with `-f json`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel

from services.findings.sarif.fingerprints import OWN_KEY

_URL = re.compile("[a-z][a-z0-9+.-]+://", re.IGNORECASE)
SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Place(_Item):
    """Lines of a file."""

    file: str = Field(min_length=1)
    first_line: int = Field(ge=1, validation_alias=AliasChoices("first_line", "line"))
    last_line: int = Field(0, ge=0)
    message: str = ""


class ListedFinding(Place):
    """A finding, with the fields of the proto `Finding`; its place stands in it or under `location`."""

    rule_id: str = Field(min_length=1, validation_alias=AliasChoices("rule_id", "rule"))
    cwe: str = Field("", pattern=r"^(CWE-[0-9]{1,6})?$")
    snippet: str = ""
    fingerprint: str = Field("", max_length=256)
    trace: tuple[Place, ...] = ()
    related: tuple[Place, ...] = ()


class Weakness(_Item):
    """A CWE as Bandit writes it."""

    id: int | None = None


class BanditIssue(_Item):
    """A result of Bandit."""

    test_id: str = Field(min_length=1)
    filename: str = Field(min_length=1)
    line_number: int = Field(ge=1)
    line_range: tuple[int, ...] = ()
    issue_text: str = ""
    issue_cwe: Weakness | None = None


class FindingList(RootModel[tuple[ListedFinding, ...]]):
    """A list of findings."""


class BanditReport(RootModel[tuple[BanditIssue, ...]]):
    """Results of Bandit."""


def as_sarif(document: Any) -> dict[str, Any]:
    """Returns a SARIF log of what a document lists. Raises pydantic.ValidationError."""
    if isinstance(document, dict) and "results" in document:
        issues = BanditReport.model_validate(document["results"]).root
        return _log("Bandit", map(_of_bandit, issues))
    if isinstance(document, dict):
        document = document.get("findings", [document])
    items = [_flat(item) for item in document] if isinstance(document, list) else document
    return _log("findings", FindingList.model_validate(items).root)


def _flat(item: Any) -> Any:
    if isinstance(item, dict) and isinstance(item.get("location"), dict):
        return {**item["location"], **item}
    return item


def _of_bandit(issue: BanditIssue) -> ListedFinding:
    cwe = f"CWE-{issue.issue_cwe.id}" if issue.issue_cwe and issue.issue_cwe.id else ""
    return ListedFinding.model_validate(
        {
            "rule_id": issue.test_id,
            "file": issue.filename,
            "line": issue.line_number,
            "last_line": max(issue.line_range, default=0),
            "message": issue.issue_text,
            "cwe": cwe,
        }
    )


def _log(tool: str, findings: Iterable[ListedFinding]) -> dict[str, Any]:
    results = [_result(finding) for finding in findings]
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": tool}}, "results": results}],
    }


def _result(finding: ListedFinding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule_id,
        "message": {"text": finding.message},
        "locations": [_location(finding, snippet=finding.snippet)],
    }
    if finding.fingerprint:
        result["fingerprints"] = {OWN_KEY: finding.fingerprint}
    if finding.cwe:
        result["properties"] = {"cwe": finding.cwe}
    if finding.trace:
        steps = [{"location": _location(place)} for place in finding.trace]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.related:
        result["relatedLocations"] = [_location(place) for place in finding.related]
    return result


def _location(place: Place, *, snippet: str = "") -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": place.first_line}
    if place.last_line >= place.first_line:
        region["endLine"] = place.last_line
    if snippet:
        region["snippet"] = {"text": snippet}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}
    if place.message and not isinstance(place, ListedFinding):
        location["message"] = {"text": place.message}
    return location


def _uri(file: str) -> str:
    """Returns a path as a URI says it; a URL, which some tools write in its place, is one already."""
    return file if _URL.match(file) else quote(file.replace("\\", "/"), errors="replace")
