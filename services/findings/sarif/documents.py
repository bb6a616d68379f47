"""Logs as files: SARIF, or plain lists of findings, which become SARIF when they are read."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from services.findings.errors import BadLog, read_text
from services.findings.sarif.finding_list import as_sarif
from services.findings.sarif.log import Log, Revision
from services.kit.text.problems import problems_of

MAX_DEPTH = 100
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def read_document(path: Path) -> dict[str, Any]:
    """Returns a SARIF document. Raises BadFile."""
    document = read_json(path)
    if isinstance(document, dict) and "runs" in document:
        _check(document, path)
        return document
    try:
        return as_sarif(document)
    except ValidationError as error:
        raise BadLog(
            f"{path} is neither a SARIF log nor a list of findings: {problems_of(error)[0]}",
            hint="give a SARIF 2.1.0 log, Bandit's JSON, or findings with rule_id, file and line",
        ) from error


def read_json(path: Path) -> Any:
    """Returns what a JSON file holds. Raises BadFile."""
    try:
        return json.loads(read_text(path), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadLog(f"{path} is not JSON: {str(error)[:200]}") from error


def parse_log(document: dict[str, Any]) -> Log:
    """Returns the parts of a document that are read; what can't be is left out, and noted at its result."""
    return Log.model_validate(document, context=[])


def analysed_commits(document: dict[str, Any]) -> frozenset[str]:
    """Returns the git commits that the runs of a log say they are of."""
    return frozenset(each.revision_id for each in _revisions(document) if _COMMIT.fullmatch(each.revision_id))


def repository_uri(document: dict[str, Any]) -> str:
    """Returns where the runs of a log say that their repository is; empty where they don't agree on one."""
    named = {each.repository_uri for each in _revisions(document) if each.repository_uri}
    return named.pop() if len(named) == 1 else ""


def _revisions(document: dict[str, Any]) -> list[Revision]:
    runs = [run for run in document["runs"] if isinstance(run, dict)]
    without_results = Log.model_validate({"runs": [{**run, "results": []} for run in runs]})
    return [each for run in without_results.runs for each in run.version_control_provenance]


def write_json(document: Any) -> str:
    """Returns a document as a JSON file's text."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry and UTF-8 can't
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    return text


def _check(document: dict[str, Any], path: Path) -> None:
    version = document.get("version")
    if isinstance(version, str) and not version.startswith("2.1"):
        raise BadLog(f"{path} is SARIF {version[:20]!r}, not 2.1.0", hint="let the tool write SARIF 2.1.0")
    if _is_deep(document):
        raise BadLog(f"{path} is nested more than {MAX_DEPTH} deep")
    runs = document["runs"]
    if not isinstance(runs, list):
        raise BadLog(f"{path} has no list of runs", hint="look at the tool's own output")
    for run in runs:
        if _has_results_elsewhere(run):
            raise BadLog(f"{path} has its results in other files", hint="let the tool write them into the log")
        if isinstance(run, dict) and not isinstance(run.get("results"), list | None):
            raise BadLog(f"{path} has results that are no list", hint="look at the tool's own output")


def _has_results_elsewhere(run: Any) -> bool:
    references = run.get("externalPropertyFileReferences") if isinstance(run, dict) else None
    return isinstance(references, dict) and bool(references.get("results"))


def _is_deep(document: Any) -> bool:
    """Tells whether a document is nested deeper than what walks it by recursion can stand."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _finite(number: str) -> float:
    if math.isinf(value := float(number)):
        # It is JSON, but no JSON says it once it is read.
        raise ValueError(f"{number} is too large a number")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
