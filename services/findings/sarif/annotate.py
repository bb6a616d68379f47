"""From verdicts back into the log: properties for every result, suppressions for false positives, nothing else."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from services.findings.errors import UnmatchedResults
from services.findings.sarif.findings import read_results
from services.findings.sarif.fingerprints import PROPERTY
from services.findings.sarif.outcome import Outcome, Verdict
from services.findings.sarif.paths import RepositoryPaths

# The tool extension that names what decided where no language model did.
EXTENSION = "signalbox-verdicts"


def annotate(
    document: dict[str, Any], outcomes: Sequence[Outcome], paths: RepositoryPaths, *, accept: bool = False
) -> dict[str, Any]:
    """Returns a copy of a log with the outcomes in it, matched by fingerprint. Raises UnmatchedResults.

    A false positive is suppressed `underReview`, or `accepted` when the caller accepts the verdicts as they are; one
    that no language model came to is never accepted so, and the tool's extensions name what did.
    """
    annotated = copy.deepcopy(document)
    results = {result.fingerprint: result for result in read_results(annotated, paths)}
    wanted = {fingerprint for fingerprint, result in results.items() if not result.skipped}
    given = {outcome.fingerprint: outcome for outcome in outcomes}
    if len(given) != len(outcomes) or given.keys() != wanted:
        raise UnmatchedResults(
            without_result=_doubles(outcomes) | (given.keys() - wanted), without_verdict=wanted - given.keys()
        )
    for fingerprint, outcome in given.items():
        _write(results[fingerprint].raw, outcome, accept=accept)
    for run in annotated["runs"]:
        _complete(run)
        _name_deciders(run)
    return annotated


def _doubles(outcomes: Sequence[Outcome]) -> set[str]:
    times = Counter(outcome.fingerprint for outcome in outcomes)
    return {fingerprint for fingerprint, count in times.items() if count > 1}


def _write(result: dict[str, Any], outcome: Outcome, *, accept: bool) -> None:
    properties, before = result.setdefault("properties", {}), result.get("suppressions") or []
    if not isinstance(properties, dict) or not isinstance(before, list):
        # It breaks the schema there, and is left as it is.
        return
    properties[PROPERTY] = _properties(outcome)
    others = [old for old in before if not _is_ours(old)]
    if outcome.verdict is Verdict.FALSE_POSITIVE:
        others.append(_suppression(outcome, accept=accept and not outcome.decided_by))
    if others or "suppressions" in result:
        result["suppressions"] = others


def _complete(run: dict[str, Any]) -> None:
    """Gives every result of a run suppressions, be they none, once one has some: SARIF 3.27.23 wants all or nothing."""
    results = [result for result in run.get("results") or () if isinstance(result, dict)]
    if any(result.get("suppressions") for result in results):
        for result in results:
            result.setdefault("suppressions", [])


def _name_deciders(run: dict[str, Any]) -> None:
    """Names what decided instead of a language model among the extensions of a run's tool, and nothing of before."""
    tool = run.get("tool")
    results = [result for result in run.get("results") or () if isinstance(result, dict)]
    told = (result["properties"].get(PROPERTY) for result in results if isinstance(result.get("properties"), dict))
    deciders = sorted({ours["decidedBy"] for ours in told if isinstance(ours, dict) and ours.get("decidedBy")})
    if not isinstance(tool, dict) or not isinstance(tool.get("extensions") or [], list):
        # It breaks the schema there, and is left as it is.
        return
    before = tool.get("extensions") or []
    others = [old for old in before if not (isinstance(old, dict) and old.get("name") == EXTENSION)]
    extensions = [*others, *({"name": EXTENSION, "shortDescription": {"text": decider}} for decider in deciders)]
    if extensions or "extensions" in tool:
        tool["extensions"] = extensions


def _is_ours(suppression: Mapping[str, Any]) -> bool:
    return isinstance(suppression, Mapping) and PROPERTY in (suppression.get("properties") or {})


def _suppression(outcome: Outcome, *, accept: bool) -> dict[str, Any]:
    return {
        "kind": "external",
        "status": "accepted" if accept else "underReview",
        "justification": outcome.justification,
        "properties": {PROPERTY: {"fingerprint": outcome.fingerprint}},
    }


def _properties(outcome: Outcome) -> dict[str, Any]:
    return {
        "verdict": outcome.verdict.value,
        **({} if outcome.confidence is None else {"confidence": outcome.confidence}),
        **({"decidedBy": outcome.decided_by} if outcome.decided_by else {}),
        "justification": outcome.justification,
        "evidence": [
            {
                "claim": evidence.claim,
                "file": evidence.file,
                "firstLine": evidence.first_line,
                "lastLine": evidence.last_line,
                "commit": evidence.commit,
                "quote": evidence.quote,
            }
            for evidence in outcome.evidence
        ],
        "fingerprint": outcome.fingerprint,
        "source": outcome.source.value,
        "stopReason": outcome.stop_reason,
        "runId": outcome.run_id,
    }
