"""From verdicts back into the log: properties for every result, suppressions for false positives, nothing else."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from services.cli.sarif.errors import UnmatchedResults
from services.cli.sarif.findings import read_results
from services.cli.sarif.fingerprints import PROPERTY
from services.cli.sarif.outcome import Outcome, Verdict
from services.cli.sarif.paths import RepositoryPaths


def annotate(document: dict[str, Any], outcomes: Sequence[Outcome], paths: RepositoryPaths) -> dict[str, Any]:
    """Returns a copy of a log with the outcomes in it, matched by fingerprint. Raises UnmatchedResults."""
    annotated = copy.deepcopy(document)
    results = {result.fingerprint: result for result in read_results(annotated, paths)}
    wanted = {fingerprint for fingerprint, result in results.items() if not result.skipped}
    given = {outcome.fingerprint: outcome for outcome in outcomes}
    if len(given) != len(outcomes) or given.keys() != wanted:
        raise UnmatchedResults(
            without_result=_doubles(outcomes) | (given.keys() - wanted), without_verdict=wanted - given.keys()
        )
    for fingerprint, outcome in given.items():
        _write(results[fingerprint].raw, outcome)
    for run in annotated["runs"]:
        _complete(run)
    return annotated


def _doubles(outcomes: Sequence[Outcome]) -> set[str]:
    times = Counter(outcome.fingerprint for outcome in outcomes)
    return {fingerprint for fingerprint, count in times.items() if count > 1}


def _write(result: dict[str, Any], outcome: Outcome) -> None:
    result.setdefault("properties", {})[PROPERTY] = _properties(outcome)
    others = [old for old in result.get("suppressions") or () if not _is_ours(old)]
    if outcome.verdict is Verdict.FALSE_POSITIVE:
        others.append(_suppression(outcome))
    if others or "suppressions" in result:
        result["suppressions"] = others


def _complete(run: dict[str, Any]) -> None:
    """Gives every result of a run suppressions, be they none, once one has some: SARIF 3.27.23 wants all or nothing."""
    results = run.get("results") or []
    if any(result.get("suppressions") for result in results):
        for result in results:
            result.setdefault("suppressions", [])


def _is_ours(suppression: Mapping[str, Any]) -> bool:
    return PROPERTY in suppression.get("properties", {})


def _suppression(outcome: Outcome) -> dict[str, Any]:
    return {
        "kind": "external",
        "status": "accepted",
        "justification": outcome.justification,
        "properties": {PROPERTY: {"fingerprint": outcome.fingerprint}},
    }


def _properties(outcome: Outcome) -> dict[str, Any]:
    return {
        "verdict": outcome.verdict.value,
        "confidence": outcome.confidence,
        "justification": outcome.justification,
        "evidence": [
            {
                "claim": proof.claim,
                "file": proof.file,
                "firstLine": proof.first_line,
                "lastLine": proof.last_line,
                "commit": proof.commit,
                "quote": proof.quote,
            }
            for proof in outcome.evidence
        ],
        "fingerprint": outcome.fingerprint,
        "source": outcome.source.value,
        "stopReason": outcome.stop_reason,
        "runId": outcome.run_id,
    }
