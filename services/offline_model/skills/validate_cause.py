"""The skill behind `signalbox-offline-validation`: whether evidence that was looked up can show the cause it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.incidents.causes import SOON
from services.offline_model.incidents.findings import instant
from services.offline_model.incidents.prompts import read_json

SUBMIT_VALIDATION: Final = "submit_validation"


def validate_cause(conversation: Conversation) -> Answer:
    """Hands in whether the evidence supports the cause, and what speaks against it."""
    given = read_json(conversation.question)
    if not given.get("evidence"):
        problems = ["no evidence was shown"]
    else:
        problems = [*_about_another(given), *_after_the_symptoms(given)]
    return Answer(calls=(Call(SUBMIT_VALIDATION, {"supported": not problems, "problems": problems}),))


def _about_another(given: Mapping[str, Any]) -> Iterator[str]:
    """The service that the incident is about, or one that a path leads to from it, must be the one that is named."""
    service = str(given.get("incident", {}).get("service", ""))
    reached = {service}
    for each in given["evidence"]:
        nodes = [node["key"] for node in each.get("graph_path", {}).get("nodes", ())]
        if nodes and nodes[0] == service:
            reached |= set(nodes)
    if not any(name and name in str(given.get("root_cause", "")) for name in reached):
        yield f"no path leads from {service} to what is named as the cause"


def _after_the_symptoms(given: Mapping[str, Any]) -> Iterator[str]:
    deployed, measured = _times(given, "deployed_at"), _times(given, "recorded_at")
    for time in deployed:
        if measured and not min(measured) - SOON <= time <= min(measured):
            yield f"what was deployed at {time.isoformat()} did not come shortly before the symptoms"


def _times(given: Mapping[str, Any], column: str) -> list[datetime]:
    rows = [read_json(str(each.get("found", ""))) for each in given["evidence"]]
    found = (instant(str(row[column])) for row in rows if column in row)
    return [time for time in found if time is not None]
