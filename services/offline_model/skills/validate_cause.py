"""Part of `signalbox-offline-evaluator`: whether evidence that was looked up can show the cause it is for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.incidents import SOON, instant
from services.offline_model.prompt_data import CauseToValidate, as_prompt

VALIDATE_CAUSE: Final = "validate_cause"


def validate_cause(conversation: Conversation) -> Answer:
    """Hands in whether the evidence supports the cause, and what speaks against it."""
    given = as_prompt(CauseToValidate, conversation.data)
    elsewhere = list(_about_another(given)) if given and given.evidence else ["no evidence was shown"]
    later = list(_after_the_symptoms(given)) if given else []
    problems = [*elsewhere, *later]
    judged = {"bears_on_cause": not elsewhere, "time_fits": not later, "explains_symptom": not elsewhere}
    reason = " ".join(problems) or "What was found is of a service on the way, and came shortly before the symptoms."
    return Answer(json.dumps({**judged, "problems": problems, "reason": reason}))


def _about_another(given: CauseToValidate) -> Iterator[str]:
    """The service that the incident is about, or one that a path leads to from it, must be the one that is named."""
    reached = {service := str(given.incident.get("service", ""))}
    for each in given.evidence:
        nodes = [node["key"] for node in (each.graph_path or {}).get("nodes", ())]
        if nodes and nodes[0] == service:
            reached |= set(nodes)
    named = {name for name in reached if name and name in given.root_cause}
    if not named:
        yield f"no path leads from {service} to what is named as the cause"
    shown = [row.values() for each in given.evidence if each.graph_path is None for row in [_row(each.found)]]
    if not any(not values or named.intersection(map(str, values)) for values in shown):
        yield "no row and no line is of what is named as the cause: a path shows what depends on what, and no failure"


def _after_the_symptoms(given: CauseToValidate) -> Iterator[str]:
    rows = [_row(each.found) for each in given.evidence]
    deployed, measured = _times(rows, "deployed_at"), _times(rows, "recorded_at")
    for time in deployed:
        if measured and not min(measured) - SOON <= time <= min(measured):
            yield f"what was deployed at {time.isoformat()} did not come shortly before the symptoms"


def _row(found: str) -> dict[str, Any]:
    """Returns the row of a query that was looked up again; what is none has no columns."""
    try:
        row = json.loads(found)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _times(rows: list[dict[str, Any]], column: str) -> list[datetime]:
    return [time for row in rows if column in row and (time := instant(str(row[column])))]
