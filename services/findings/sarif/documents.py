"""Logs as files: SARIF, or plain lists of findings, which become SARIF when they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from services.findings.errors import BadLog, read_text
from services.findings.sarif.finding_list import as_sarif
from services.findings.sarif.fingerprints import PROPERTY
from services.findings.sarif.log import Log
from services.findings.sarif.schema import result_violations, violations
from services.kit.text.problems import problems_of

MAX_DEPTH = 100


def read_document(path: Path) -> dict[str, Any]:
    """Returns a SARIF document, valid by its schema. Raises BadFile."""
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
    """Returns the parts of a document that are read."""
    return Log.model_validate(document)


def write_json(document: Any) -> str:
    """Returns a document as a JSON file's text."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry and UTF-8 can't
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    return text


def _check(document: dict[str, Any], path: Path) -> None:
    if document.get("version") != "2.1.0":
        raise BadLog(f"{path} is SARIF {document.get('version')!r}, not 2.1.0", hint="let the tool write SARIF 2.1.0")
    if _is_deep(document):
        raise BadLog(f"{path} is nested more than {MAX_DEPTH} deep")
    if document["runs"] is None:
        raise BadLog(f"{path} has no runs", hint="look at the tool's own output")
    # A result that breaks the schema costs that result, and never the log.
    wrong = violations(without_results(document))
    if wrong:
        raise BadLog(
            f"{path} breaks the SARIF 2.1.0 schema:\n  " + "\n  ".join(wrong), hint="report it to the tool's authors"
        )

    if any(run.get("externalPropertyFileReferences", {}).get("results") for run in document["runs"]):
        raise BadLog(f"{path} has its results in other files", hint="let the tool write them into the log")


def off_schema_results(document: dict[str, Any]) -> dict[tuple[int, int], str]:
    """Returns the results that break the schema, by run and index, each with what is wrong."""
    return {
        (number, index): wrong
        for number, run in enumerate(document["runs"])
        for index, raw in enumerate(run.get("results") or ())
        if (wrong := "; ".join(result_violations(raw)))
    }


def without_results(document: dict[str, Any], wrong: Collection[tuple[int, int]] | None = None) -> dict[str, Any]:
    """Returns a document without its results, or with an empty one in the place of each wrong one."""

    def kept(number: int, run: dict[str, Any]) -> list[Any]:
        if wrong is None:
            return []
        return [{} if (number, index) in wrong else raw for index, raw in enumerate(run.get("results") or ())]

    runs = document["runs"]
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        return document
    return {**document, "runs": [{**run, "results": kept(number, run)} for number, run in enumerate(runs)]}


def written(raw: Any) -> str:
    """Returns what is written of a result, without what an earlier investigation wrote into it."""
    if isinstance(raw, dict) and isinstance(raw.get("properties"), dict):
        properties = {name: value for name, value in raw["properties"].items() if name != PROPERTY}
        raw = {**raw, "properties": properties}
        raw = {name: value for name, value in raw.items() if name != "properties" or value}
    return json.dumps(raw, sort_keys=True)


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
