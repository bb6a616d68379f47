"""The skill behind `signalbox-offline-parse`: a goal for a graph in, what it asks for out."""

from __future__ import annotations

from typing import Any, Final

from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.graph_goals.understanding import Understanding, read_material, understand
from services.offline_model.vocabulary import Vocabulary

SUBMIT_GOAL: Final = "submit_goal"
_DETAILS: Final = (
    "What exactly is broken, or should be changed: which nodes, by label and key?",
    "What did you expect to see instead?",
    "Which errors are shown, if any?",
)


def read_goal(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Hands in what the goal asks for; what it does not cover gets questions, not guesses."""
    given = read_material(conversation.question)
    if not given:
        return Answer("I was shown no goal.")
    found = understand(given, vocabulary)
    return Answer(calls=(Call(SUBMIT_GOAL, _spec(found)),))


def _spec(found: Understanding) -> dict[str, Any]:
    simple = len(found.operations) == 1
    clear = bool(found.operations) and not found.unclear
    spec: dict[str, Any] = {
        "intent": ", ".join(dict.fromkeys(each["tool"] for each in found.operations)) or "not clear",
        "entities": [each["arguments"]["key"] for each in found.operations if "key" in each["arguments"]],
        "constraints": [],
        "complexity": "simple" if simple else "complex",
        "confidence": 0.9 if clear else 0.2,
        "contradictions": [
            {
                "about": f"The {conflict.property} of {conflict.key} is to be {_both(conflict.values)}.",
                "choices": list(conflict.values),
            }
            for conflict in found.conflicts
        ],
        "in_scope": found.in_scope,
        "questions": [] if clear else _questions(found),
    }
    if simple and clear and not found.conflicts:
        spec["operation"] = found.operations[0]
    return spec


def _both(values: tuple[str, str]) -> str:
    return " and ".join(map(repr, values))


def _questions(found: Understanding) -> list[str]:
    if not found.operations:
        return list(_DETAILS)
    return [f"I do not understand “{found.unclear[0][:200]}”. What should be done there?"]
