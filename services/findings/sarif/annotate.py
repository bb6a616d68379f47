"""From verdicts back into the log: properties for every result, suppressions for false positives, nothing else."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from services.findings.errors import UnmatchedResults
from services.findings.sarif.findings import LogResult, read_results
from services.findings.sarif.fingerprints import OWN_KEY, PROPERTY
from services.findings.sarif.outcome import Outcome, Verdict, verdict_of_all
from services.findings.sarif.paths import RepositoryPaths

# The tool extension that names what decided where no language model did.
EXTENSION = "signalbox-verdicts"
MAX_SAID = 300


def annotate(
    document: dict[str, Any],
    outcomes: Sequence[Outcome],
    paths: RepositoryPaths,
    *,
    accept: bool = False,
    provenance: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Returns a copy of a log with the outcomes in it, matched by fingerprint. Raises UnmatchedResults.

    A result that is false at each of its places is suppressed `underReview`, or `accepted` when the caller accepts the
    verdicts as they are; one that no language model came to is never accepted so, and the tool's extensions name what
    did. provenance: the repository and commit that were looked at, for runs that name none of their own.
    """
    annotated = copy.deepcopy(document)
    results = [result for result in read_results(annotated, paths) if not result.skipped]
    given = {outcome.fingerprint: outcome for outcome in outcomes}
    wanted = {result.fingerprint for result in results}
    if len(given) != len(outcomes) or given.keys() != wanted:
        raise UnmatchedResults(
            without_result=_doubles(outcomes) | (given.keys() - wanted), without_verdict=wanted - given.keys()
        )
    places: dict[str, list[LogResult]] = {}
    for result in results:
        places.setdefault(result.result, []).append(result)
    for fingerprint, at_places in places.items():
        _write(fingerprint, at_places, [given[place.fingerprint] for place in at_places], accept=accept)
    for run in annotated["runs"]:
        if isinstance(run, dict):
            _complete(run)
            _name_deciders(run)
            if provenance and not run.get("versionControlProvenance"):
                run["versionControlProvenance"] = [dict(provenance)]
    return annotated


def _doubles(outcomes: Sequence[Outcome]) -> set[str]:
    times = Counter(outcome.fingerprint for outcome in outcomes)
    return {fingerprint for fingerprint, count in times.items() if count > 1}


def _write(fingerprint: str, places: Sequence[LogResult], outcomes: Sequence[Outcome], *, accept: bool) -> None:
    result, verdict = places[0].raw, verdict_of_all([outcome.verdict for outcome in outcomes])
    properties, before = _dict_at(result, "properties"), result.get("suppressions")
    message, given = _dict_at(result, "message"), _dict_at(result, "partialFingerprints")
    justification = _justification(places, outcomes)
    properties[PROPERTY] = {
        **_properties(outcomes[0]),
        "verdict": verdict.value,
        "justification": justification,
        "fingerprint": fingerprint,
        "message": places[0].own_message,
        **({"places": _places(places, outcomes)} if len(places) > 1 else {}),
    }
    first_line = justification.partition("\n")[0][:MAX_SAID]
    # Tools that compare logs look at the first line.
    message["text"] = f"[{verdict.value}] {places[0].message}\n\n{first_line}"
    given[OWN_KEY] = fingerprint
    others = [old for old in before if not _is_ours(old)] if isinstance(before, list) else []
    if verdict is Verdict.FALSE_POSITIVE:
        by_models = not any(outcome.decided_by for outcome in outcomes)
        others.append(_suppression(fingerprint, justification, accept=accept and by_models))
    if others or "suppressions" in result:
        result["suppressions"] = others


def _dict_at(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the object under a name; what is no object there, against the schema, gives way to one."""
    found = result.get(name)
    if not isinstance(found, dict):
        found = result[name] = {}
    return found


def _justification(places: Sequence[LogResult], outcomes: Sequence[Outcome]) -> str:
    if len(places) == 1:
        return outcomes[0].justification
    return "\n".join(
        f"{_shown(place)}: {outcome.verdict.value}. {outcome.justification}"
        for place, outcome in zip(places, outcomes, strict=True)
    )


def _places(places: Sequence[LogResult], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [{"place": _shown(place), **_properties(outcome)} for place, outcome in zip(places, outcomes, strict=True)]


def _shown(place: LogResult) -> str:
    location = place.finding.location
    return f"{location.file}:{location.first_line}" if location.file else "(no place)"


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
    properties = suppression.get("properties") if isinstance(suppression, Mapping) else None
    return isinstance(properties, Mapping) and PROPERTY in properties


def _suppression(fingerprint: str, justification: str, *, accept: bool) -> dict[str, Any]:
    return {
        "kind": "external",
        "status": "accepted" if accept else "underReview",
        "justification": justification,
        "properties": {PROPERTY: {"fingerprint": fingerprint}},
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
        **{
            name: value
            for name, value in (
                ("read", list(outcome.read)),
                ("openQuestion", outcome.open_question),
                ("rules", outcome.rules),
                ("notes", list(outcome.notes)),
            )
            if value
        },
    }
